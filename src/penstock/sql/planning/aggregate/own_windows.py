"""Aggregates over windows of their own, as AVG(x, 5 MINUTES), where no slices of one stream answer the question."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from penstock.errors import error
from penstock.expr.windows import Bound as Edge
from penstock.expr.windows import TimeWindow
from penstock.sql.binding.calls import is_aggregate
from penstock.sql.binding.context import BoundQuery, SelectContext
from penstock.sql.nodes import OwnWindow


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
