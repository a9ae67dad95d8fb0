"""What EXPLAIN says of approximate aggregates: their bounds, and how sure those are."""

from __future__ import annotations

from penstock.sql.binding.approximate import ERROR
from penstock.sql.explain.correlated import promise, show_correlated
from penstock.sql.explain.notation import show
from penstock.sql.plan import AggregateCall, AggregatePlan

_PROMISES = {
    "approx_count": "within {0} of the truth, for certain",
    "approx_sum": "within {0} of the sum of absolute values, for certain",
    "approx_distinct": "within {0} of the truth in 99.7 % of all cases",
    "approx_percentile": "within {0} of the rows, by rank, in 99 % of all cases",
    "approx_top_k": "counts within {0} of the rows, for certain",
    "approx_norm": "within {0} of the truth in 99.7 % of all cases",
}
_SPECIAL = ("approx_percentile", "approx_top_k", "approx_norm")


def show_parameter(call: AggregateCall) -> str:
    """What a call says beside its value."""
    if call.parameter is None:
        return ""
    if not isinstance(call.parameter, tuple):
        return f", {call.parameter!r}"
    special, epsilon = call.parameter[:2]
    said = [f"{special:g}"] if call.function.removesuffix(ERROR) in _SPECIAL else []
    said += [] if call.function.startswith("approx_top_k") else [f"{epsilon:g}"]
    return "".join(f", {each}" for each in said)


def show_call(call: AggregateCall) -> str:
    """An aggregate as EXPLAIN writes it."""
    arguments = ", ".join(show(a) for a in call.arguments) or "*"
    return f"{call.function}({arguments}{show_parameter(call)})"


def promise_lines(plan: AggregatePlan) -> list[str]:
    """A line per approximate aggregate."""
    lines = []
    for call in plan.aggregates:
        if not isinstance(call.parameter, tuple) or call.function.endswith(ERROR):
            continue
        if show_correlated(call) is not None:
            correlated = promise(call)
            lines += [f"  error: {correlated}"] if correlated is not None else []
            continue
        promised = _PROMISES[call.function].format(f"{100 * call.parameter[1]:.3g} %")
        lines.append(f"  error: {show_call(call)}: {promised}")
    return lines
