"""Windows of aggregations that BEGIN and END do not say: LATCH, which has no end, and those of single aggregates, as AVG(x, 5 MINUTES)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from penstock.catalog.model import TIME_COLUMN
from penstock.errors import PenstockError, error
from penstock.expr.expression import Call, Column, Literal
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.expr.windows import Bound as Edge
from penstock.sql.binding.calls import is_aggregate
from penstock.sql.binding.context import BoundQuery, SelectContext
from penstock.sql.nodes import OwnWindow
from penstock.sql.plan import Plan
from penstock.sql.planning.relations import all_of
from penstock.types import BOOLEAN, TIMESTAMP

UNREGISTERED = ""
"""The name of a state that is none yet."""
_WITHOUT = "without LATCH it runs, as far back as readings are kept"


def check_latch(bound: BoundQuery, standing: bool) -> bool:
    """Whether the question is one with LATCH. Refuses whatever cannot have a state without end."""
    latched = [context for context in bound.collected.contexts if context.scope.latch is not None]
    for context in latched:
        failure = _refusal(bound, context, standing)
        if failure is not None:
            context.fail(context.scope.latch, failure)
    return bool(latched)


def _refusal(bound: BoundQuery, context: SelectContext, standing: bool) -> PenstockError | None:
    if context is not bound.collected.contexts[0] or context.select is not bound.query:
        feature, hint = "LATCH in a subquery or beside other SELECTs", "put it into a standing query of its own"
        return error("not_supported", feature=feature, hint=hint)
    if not context.aggregated:
        hint = "write SELECT stock, MAX(price) FROM trades GROUP BY stock, LATCH"
        return error("syntax_error", detail="LATCH needs an aggregate", hint=hint)
    if context.scope.panes is not None:
        detail = "TUMBLE, SLIDE, SESSION and LANDMARK end, LATCH does not"
        return error("invalid_window", detail=detail, hint="leave one of them out")
    window = context.windows.everywhere
    if not isinstance(window, TimeWindow) or window.slides:
        return error("invalid_window", detail="a window that moves on forgets, and LATCH does not", hint=_WITHOUT)
    if standing and window.ends:
        detail = f"END ({window.end}) is an end, and LATCH has none"
        return error("invalid_window", detail=detail, hint="leave END out")
    return None


def refuse_uncovered(bound: BoundQuery, reason: str) -> NoReturn:
    """Spark SQL reads what is kept; a state without end must not depend on that."""
    hint = f"{reason}, and keeps no state; {_WITHOUT}"
    context = bound.collected.contexts[0]
    context.fail(context.scope.latch, error("not_supported", feature="LATCH here", hint=hint))


def registered(plan: Plan, name: str, start_us: int | None) -> Plan:
    """The plan with the name of its state, and with its beginning among the conditions: no row is inside and leaves."""
    asked = plan.aggregation
    if asked is None or asked.latch is None:
        return plan
    assert isinstance(asked.window, TimeWindow)
    begin = asked.window.begin.resolve(0, -FOREVER if start_us is None else start_us)
    since = Call("ge", (Column(TIME_COLUMN, TIMESTAMP), Literal(begin, TIMESTAMP)), BOOLEAN)
    conditions = all_of((asked.stream_predicate, since if begin > -FOREVER else None))
    return replace(asked, latch=name, stream_predicate=conditions)


def last(us: int) -> TimeWindow:
    """The time from so long ago to NOW."""
    return TimeWindow(Edge("now", -us), Edge("now"))


def take_own_windows(bound: BoundQuery, reason: str | None = None) -> None:
    """One window that all aggregates share becomes the question's own; Spark SQL has no other way to say it.

    `reason`: why a standing query is no matter of slices.
    """
    hint = "make it a standing query over one stream: CREATE QUERY name AS SELECT ..."
    if reason is not None:
        hint = f"only slices over one stream have it; here {reason}"
    for context in bound.collected.contexts:
        for call in _own(context):
            if isinstance(call, exp.Anonymous) and call.name.lower() == "twa":
                context.fail(call, error("not_supported", feature="TWA in Spark SQL", hint=hint))
        share_own_window(context)
        left = next((node for node in _own(context) if isinstance(node, OwnWindow)), None)
        if left is not None:
            feature = "a window inside an aggregate, beside another window, in Spark SQL"
            context.fail(left, error("not_supported", feature=feature, hint=hint))


def share_own_window(context: SelectContext) -> None:
    """If each aggregate of a SELECT has a window of its own, and there is no other, the longest becomes that of its streams.

    If they are all the same, nothing else is left to say.
    """
    found = [node for node in _own(context) if isinstance(node, OwnWindow)]
    calls = [node for node in _own(context) if is_aggregate(node)]
    if not found or len(calls) > len(found) or context.windows.explicit:
        return
    windows = {node.us for node in found}
    for source in context.sources:
        if source.is_stream:
            source.window = last(max(windows))
    for node in found if len(windows) == 1 else ():
        node.replace(node.this)


def _own(context: SelectContext) -> Iterator[exp.Expr]:
    """What a SELECT says itself: those inside of it have windows, and contexts, of their own."""
    return (node for node in context.select.find_all(exp.Expr) if node.find_ancestor(exp.Select) is context.select)
