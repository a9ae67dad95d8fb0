"""GROUP BY ..., LATCH: the state of each group has no end."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import PenstockError, error
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.scope import Scope, fold


def bind_latch(select: exp.Select, scope: Scope, binder: ExpressionBinder) -> None:
    """Take LATCH out of GROUP BY and remember where it stood. A column of that name is a column."""
    group = select.args.get("group")
    if group is None:
        return
    for node in list(group.expressions):
        if isinstance(node, exp.Anonymous) and node.name.upper() == "LATCH":
            if node.expressions:
                hint = "write GROUP BY key, LATCH; where it begins is said with BEGIN"
                binder.fail(node, error("syntax_error", detail="LATCH takes no duration: it has no end", hint=hint))
        elif not _is_the_word(node, scope):
            continue
        if scope.latch is not None:
            binder.fail(node, error("syntax_error", detail="GROUP BY has LATCH twice"))
        scope.latch = node
        node.pop()
        for source in scope.sources:  # it is about readings, whatever is counted
            source.needs_stream = source.needs_stream or source.kind == "sensors"
    if scope.latch is not None and not group.expressions:
        select.set("group", None)


def _is_the_word(node: exp.Expr, scope: Scope) -> bool:
    if not isinstance(node, exp.Column) or len(node.parts) != 1 or fold(node.this) != "latch":
        return False
    try:
        return scope.find(["latch"]) is None
    except PenstockError:  # several tables have such a column
        return False
