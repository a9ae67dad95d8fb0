"""LATCH: where it may stand, and what a query's registration makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from penstock.catalog.model import TIME_COLUMN
from penstock.errors import error
from penstock.expr.expression import Call, Column, Literal
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.sql.binding.context import BoundQuery
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
        if context is not bound.collected.contexts[0] or context.select is not bound.query:
            feature, hint = "LATCH in a subquery or beside other SELECTs", "put it into a standing query of its own"
            context.fail(context.scope.latch, error("not_supported", feature=feature, hint=hint))
        if not context.aggregated:
            hint = "write SELECT stock, MAX(price) FROM trades GROUP BY stock, LATCH"
            context.fail(context.scope.latch, error("syntax_error", detail="LATCH needs an aggregate", hint=hint))
        if context.scope.panes is not None:
            context.fail(
                context.scope.latch,
                error("invalid_window", detail="TUMBLE and SLIDE end, LATCH does not", hint="leave one of them out"),
            )
        window = context.windows.everywhere
        if not isinstance(window, TimeWindow) or window.slides:
            context.fail(
                context.scope.latch,
                error("invalid_window", detail="a window that moves on forgets, and LATCH does not", hint=_WITHOUT),
            )
        if standing and window.ends:
            detail = f"END ({window.end}) is an end, and LATCH has none"
            context.fail(context.scope.latch, error("invalid_window", detail=detail, hint="leave END out"))
    return bool(latched)


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
    conditions = [c for c in (asked.stream_predicate, since if begin > -FOREVER else None) if c is not None]
    return replace(asked, latch=name, stream_predicate=all_of(conditions))
