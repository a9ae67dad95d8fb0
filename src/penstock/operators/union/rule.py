"""What runs in the cycle as several branches: UNION ALL of selections of one stream each, and two window joins together.

A path with BOTH WAYS is one join per direction. A FULL JOIN is the LEFT JOIN and the rows of the right side without a partner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

from sqlglot import exp

from penstock.catalog.state import CatalogState
from penstock.operators.union.plan import UnionPlan
from penstock.sql.binding.context import BoundQuery
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.plan import SelectPlan
from penstock.sql.planning.join.planner import has_join_branches, join_branches
from penstock.sql.planning.rules import PlanRule
from penstock.sql.planning.selection import select_plan

MOST_BRANCHES = 64


def applies(bound: BoundQuery) -> bool:
    return _is_union_all(bound.query) or has_join_branches(bound)


def plan(bound: BoundQuery, state: CatalogState) -> UnionPlan:
    if not _is_union_all(bound.query):
        return UnionPlan(join_branches(bound))
    selects = list(_selects(bound.query))
    if len(selects) > MOST_BRANCHES:
        raise NotCovered(f"UNION ALL of more than {MOST_BRANCHES} SELECTs runs as Spark SQL")
    return together(_branch(bound, select, place) for place, select in enumerate(selects, 1))


def together(branches: Iterator[SelectPlan]) -> UnionPlan:
    """The branches with the NOW that they have together."""
    plans = list(branches)
    clocks = tuple(dict.fromkeys(clock for each in plans for clock in each.clocks))
    beside = clocks if len(clocks) > 1 else ()
    return UnionPlan(tuple(replace(each, beside=beside) for each in plans))


def _selects(query: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs that UNION ALL combines, in order."""
    for clause, words in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
        if query.args.get(clause) and not isinstance(query, exp.Select):
            raise NotCovered(f"UNION ALL with {words} runs as Spark SQL")
    if isinstance(query, exp.Subquery):
        yield from _selects(query.this)
    elif _is_union_all(query):
        yield from _selects(query.left)
        yield from _selects(query.right)
    elif isinstance(query, exp.Select):
        yield query
    else:
        raise NotCovered(f"{type(query).__name__.upper()} beside UNION ALL runs as Spark SQL")


def _is_union_all(query: exp.Expr) -> TypeGuard[exp.Union]:
    return isinstance(query, exp.Union) and not query.args.get("distinct")


def _branch(bound: BoundQuery, select: exp.Select, place: int) -> SelectPlan:
    own = [context for context in bound.collected.contexts if context.select is select]
    below = [context for context in bound.collected.contexts if context.parent in own]
    collected = replace(bound.collected, contexts=[*own, *below])
    try:
        return select_plan(BoundQuery(select, bound.fields, collected))
    except NotCovered as failure:
        raise NotCovered(f"in SELECT {place} of UNION ALL, {failure}") from None


RULE = PlanRule(applies, plan)
