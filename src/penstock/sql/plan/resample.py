"""RESAMPLE as plain data: what is asked of two streams, one of which gives the times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.expr import expression as expressions
from penstock.expr.expression import Expr
from penstock.operators.resample.nearest import Method
from penstock.sql.plan.output import Output, output_json, outputs_of
from penstock.sql.plan.sorting import Sorted, sorted_json, sorted_of
from penstock.types import Type, parse_type


def resample_name(place: int) -> str:
    return f"resample.{place}"


@dataclass(frozen=True, slots=True)
class ResampleCall:
    """One RESAMPLE: a value over the columns of the stream that is resampled, how far from a time it may be, and how."""

    value: Expr
    us: int
    method: Method
    type: Type


@dataclass(frozen=True, slots=True)
class Resampling:
    """A value of one stream at each reading of another that satisfies its predicate inside its window.

    Emits one row per such reading. A late reading of either stream, and for LINEAR and MEAN the next one, changes rows that were
    there already. `times` and `values` say which relation of the plan is which stream: windows and initial scans are theirs.
    Predicates hold for readings of one stream alone; `keys` are pairs, of times and of values, that have to be equal.
    `outputs` and `having` name columns of the first stream, and calls by `resample_name`.
    """

    times: int
    values: int
    calls: tuple[ResampleCall, ...]
    outputs: tuple[Output, ...]
    times_predicate: Expr | None = None
    values_predicate: Expr | None = None
    keys: tuple[tuple[Expr, Expr], ...] = ()
    having: Expr | None = None
    sorted: Sorted | None = None  # None: as they stand in the log

    @property
    def back_us(self) -> int:
        """How much earlier than a time a reading may be that counts there."""
        return max(call.us for call in self.calls)

    @property
    def ahead_us(self) -> int:
        """How much later."""
        return max((call.us for call in self.calls if call.method != "previous"), default=0)


def resample_json(plan: Resampling) -> dict[str, Any]:
    return {
        "times": plan.times,
        "values": plan.values,
        "calls": [[expressions.to_json(c.value), c.us, c.method, str(c.type)] for c in plan.calls],
        "outputs": [output_json(o) for o in plan.outputs],
        "of_times": _expr_json(plan.times_predicate),
        "of_values": _expr_json(plan.values_predicate),
        "keys": [[expressions.to_json(e) for e in pair] for pair in plan.keys],
        "having": _expr_json(plan.having),
        "sorted": None if plan.sorted is None else sorted_json(plan.sorted),
    }


def resample_of(data: dict[str, Any]) -> Resampling:
    return Resampling(
        times=data["times"],
        values=data["values"],
        calls=tuple(
            ResampleCall(expressions.from_json(value), us, method, parse_type(type_))
            for value, us, method, type_ in data["calls"]
        ),
        outputs=outputs_of(data["outputs"]),
        times_predicate=_expr_of(data["of_times"]),
        values_predicate=_expr_of(data["of_values"]),
        keys=tuple((expressions.from_json(ours), expressions.from_json(theirs)) for ours, theirs in data["keys"]),
        having=_expr_of(data["having"]),
        sorted=None if data["sorted"] is None else sorted_of(data["sorted"]),
    )


def _expr_json(expr: Expr | None) -> dict[str, Any] | None:
    return None if expr is None else expressions.to_json(expr)


def _expr_of(data: dict[str, Any] | None) -> Expr | None:
    return None if data is None else expressions.from_json(data)
