"""Rows without a partner: LEFT JOIN and NOT EXISTS within a window answer once the window has passed.

Until then a partner may still come. A row's window has passed when NOW lies after the last time a partner could have.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.nodes import between_streams
from penstock.sql.values import DURATION, constant, typed
from penstock.types import BOOLEAN, TIMESTAMP

_PASSED = "windows_passed"


def window_passed(time: exp.Expr, longest_us: int) -> exp.Expr:
    """NOW > time + the longest a partner may be later."""
    last = typed(exp.Add(this=time, expression=constant(longest_us, DURATION)), TIMESTAMP)
    now = typed(exp.CurrentTimestamp(), TIMESTAMP)
    return between_streams(typed(exp.GT(this=now, expression=last), BOOLEAN))


def unmatched_or(partner_time: exp.Expr, passed: exp.Expr) -> exp.Expr:
    """For LEFT JOIN: the row has a partner, or its window has passed."""
    absent = typed(exp.Is(this=partner_time, expression=exp.Null()), BOOLEAN)
    found = typed(exp.Not(this=absent), BOOLEAN)
    either = between_streams(typed(exp.Or(this=found, expression=passed), BOOLEAN))
    return typed(exp.Paren(this=either), BOOLEAN)


def note_windows_passed(select: exp.Select, conditions: list[exp.Expr]) -> None:
    """What NOT EXISTS of this SELECT has to wait for."""
    select.meta[_PASSED] = conditions


def windows_passed(negated: exp.Expr) -> list[exp.Expr]:
    """The conditions that go with the negation of a bound expression: none unless it is an EXISTS within a window."""
    inner = negated.unnest() if isinstance(negated, exp.Paren) else negated
    if not isinstance(inner, exp.Exists):
        return []
    return [condition.copy() for select in _branches(inner.this) for condition in select.meta.get(_PASSED, [])]


def _branches(query: exp.Expr) -> list[exp.Expr]:
    if isinstance(query, exp.Subquery):
        return _branches(query.this)
    if isinstance(query, exp.SetOperation):
        return [*_branches(query.left), *_branches(query.right)]
    return [query]
