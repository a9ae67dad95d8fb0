"""Choose a rollup that can answer a question about readings that the log no longer has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from penstock.catalog.rollup_records import RollupDefinition, RollupState
from penstock.catalog.state import CatalogState
from penstock.expr.expression import Column, Expr, columns_of, conjuncts
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.aggregate.approximate.amounts import ApproxCount
from penstock.operators.aggregate.partials.base import Ints, State
from penstock.operators.aggregate.partials.registry import stands_for
from penstock.operators.aggregate.rollups.cells import Shape, shape_of
from penstock.operators.aggregate.shape import Measure, measure_of
from penstock.sql.explain.approximate import show_call
from penstock.sql.plan import AggregateCall, AggregatePlan


@dataclass(frozen=True, slots=True)
class Match:
    """A rollup that can answer a question: the question's conditions and keys, as expressions over the rollup's keys."""

    rollup: RollupDefinition
    conditions: tuple[Expr, ...]
    keys: tuple[Expr, ...]


def find_match(plan: AggregatePlan, state: CatalogState, low: int = -FOREVER) -> Match | None:
    """The rollup with the finest cells of those that have everything since a time, else the one that has most."""
    if not isinstance(plan.window, TimeWindow) or plan.latch is not None or plan.reads is not None or plan.scalars:
        # Windows of rows, states without end, rows of another query, and what is compared with a subquery are of the log alone.
        return None
    found = [m for m in (match(rollup, plan) for rollup in state.rollups_of(plan.table_id)) if m is not None]
    return min(found, key=lambda m: _rank(m.rollup, state, low), default=None)


def _rank(rollup: RollupDefinition, state: CatalogState, low: int) -> tuple[int, int, int]:
    kept_us = kept_from_us(rollup, state.rolled_up(rollup.id))
    return max(low, kept_us if kept_us is not None else -FOREVER), rollup.tiers[0].every_us, rollup.id


def kept_from_us(rollup: RollupDefinition, rolled: RollupState | None) -> int | None:
    """Since when a rollup has every reading; None: since ever."""
    known = [us for us in (rollup.since_us, rolled.gone_us if rolled is not None else None) if us is not None]
    return max(known, default=None)


@lru_cache(1024)
def match(rollup: RollupDefinition, plan: AggregatePlan) -> Match | None:
    if why_not(rollup, plan) is not None:
        return None
    _, conditions = _conditions(rollup, plan)
    over_keys = tuple(_over_keys(condition, rollup) for condition in conditions)
    return Match(rollup, over_keys, tuple(_over_keys(key, rollup) for key in plan.keys))


def why_not(rollup: RollupDefinition, plan: AggregatePlan) -> str | None:
    """Why a rollup cannot answer a question; None where it can."""
    if rollup.table_id != plan.table_id:
        return "it is about another table"
    shape = shape_of(rollup)
    missing_conditions, conditions = _conditions(rollup, plan)
    if missing_conditions:
        return "it has only some of the readings"
    if not all(_is_known(condition, rollup) for condition in conditions):
        return "it does not know what WHERE asks for: its keys do not say it"
    if not all(_is_known(key, rollup) for key in plan.keys):
        return "it has other groups"
    missing = [call for call in plan.aggregates if stand_in(measure_of(call), shape) is None]
    if missing:
        return f"it does not keep {show_call(missing[0])}" + _instead(missing[0])
    return None


def _conditions(rollup: RollupDefinition, plan: AggregatePlan) -> tuple[list[Expr], list[Expr]]:
    """What only the rollup asks of readings, and what only the question does."""
    family = shape_of(rollup).family
    kept = [*conjuncts(family.static_predicate), *conjuncts(family.stream_predicate)]
    asked = [*conjuncts(plan.static_predicate), *conjuncts(plan.stream_predicate)]
    return [c for c in kept if c not in asked], [c for c in asked if c not in kept]


def _instead(call: AggregateCall) -> str:
    """Of what needs all values one by one no rollup has enough."""
    if call.function.endswith("_distinct"):
        return ", and no rollup does, because that needs the values themselves; APPROX_DISTINCT can be kept"
    if call.function.startswith("percentile"):
        return ", and no rollup does, because that needs the values themselves; APPROX_PERCENTILE can be kept"
    return ""


def _is_known(expr: Expr, rollup: RollupDefinition) -> bool:
    """Whether each cell has one value of it: it is a key, or made of columns that are keys themselves."""
    keys = shape_of(rollup).family.keys
    return expr in keys or columns_of(expr) <= {key.name for key in keys if isinstance(key, Column)}


def _over_keys(expr: Expr, rollup: RollupDefinition) -> Expr:
    """The expression over a cell's keys: one that is a key becomes a column of its own."""
    keys = shape_of(rollup).family.keys
    if expr in keys and not isinstance(expr, Column):
        return Column(f"key.{keys.index(expr)}", expr.type)
    return expr


def stand_in(asked: Measure, shape: Shape) -> Measure | None:
    """None where the rollup has nothing of the kind."""
    if asked in shape.measures:
        return asked
    same = [kept for kept in shape.measures if kept.arguments == asked.arguments]
    counted = "count" if asked.partial.startswith(ApproxCount.name + " ") else None
    return next((kept for kept in same if kept.partial == counted or stands_for(kept.partial, asked.partial)), None)


def as_asked(state: State, kept: Measure, asked: Measure, latest: Ints) -> State:
    """A stand-in's cells as the question's own; `latest` is when the last reading of each was."""
    if kept.partial != "count" or asked.partial == "count":
        return state
    # Exact counts are approximate ones of which nothing is cut.
    return {**asked.make().empty(len(latest)), "newest": latest, "count": state["count"]}
