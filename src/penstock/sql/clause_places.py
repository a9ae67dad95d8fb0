"""Where the clauses of a question stand that can make its state grow: for a caret. The tree is read before planning spends it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from sqlglot import exp

from penstock.sql.nodes import BeginEnd
from penstock.sql.positions import Span, span_of

_NOT_KEYS = frozenset({"tumble", "slide", "latch", "session", "landmark"})
ClausePlace = tuple[str, int]


def clause_places(query: exp.Query) -> Mapping[ClausePlace, Span]:
    """By kind and place: each stream's BEGIN (its name in FROM where it has none), keys of GROUP BY, and aggregates."""
    found: list[tuple[ClausePlace, exp.Expr]] = []
    begins = list(query.find_all(BeginEnd))
    for place, table in enumerate(_tables(query)):
        own = [node for node in begins if _alias(node) == table.alias_or_name]
        general = [node for node in begins if _alias(node) is None]
        found.append((("begin", place), next(chain(own, general), table)))
    group = query.args.get("group")
    keys = [key for key in (group.expressions if group is not None else ()) if _name_of(key) not in _NOT_KEYS]
    found += [(("key", place), key) for place, key in enumerate(keys)]
    calls = chain.from_iterable(item.find_all(exp.AggFunc) for item in query.args.get("expressions") or ())
    found += [(("aggregate", place), call) for place, call in enumerate(calls)]
    return {place: span for place, node in found if (span := span_of(node)) is not None}


def _tables(query: exp.Query) -> list[exp.Table]:
    clause = query.args.get("from_")
    joins = query.args.get("joins") or ()
    named = [clause.this if clause is not None else None, *(join.this for join in joins)]
    return [table for table in named if isinstance(table, exp.Table)]


def _alias(node: exp.Expr) -> str | None:
    alias = node.args.get("alias")
    return None if alias is None else str(alias.name)


def _name_of(key: exp.Expr) -> str:
    return key.name.lower() if isinstance(key, exp.Anonymous | exp.Column | exp.Identifier) else key.key.lower()
