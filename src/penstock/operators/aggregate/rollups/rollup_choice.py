"""Choose a rollup that can answer a question about readings that the log no longer has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from penstock.catalog.rollup_records import RollupDefinition, RollupState
from penstock.catalog.state import CatalogState
from penstock.expr.expression import Call, Column, Expr, columns_of
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.aggregate.rollups.shape import shape_of
from penstock.operators.aggregate.rollups.stand_ins import stand_in
from penstock.operators.aggregate.shape import measure_of
from penstock.sql.explain.aggregate import show_call
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
    return None if why_not(rollup, plan) is not None else _match(rollup, plan)


def why_not(rollup: RollupDefinition, plan: AggregatePlan) -> str | None:
    """Why a rollup cannot answer a question; None where it can."""
    shape = shape_of(rollup)
    if rollup.table_id != plan.table_id:
        return "it is about another table"
    asked = [*_conjuncts(plan.static_predicate), *_conjuncts(plan.stream_predicate)]
    kept = [*_conjuncts(shape.family.static_predicate), *_conjuncts(shape.family.stream_predicate)]
    if any(condition not in asked for condition in kept):
        return "it has only some of the readings"
    columns = _columns(rollup)
    if not all(_is_known(c, rollup, columns) for c in asked if c not in kept):
        return "it does not know what WHERE asks for: its keys do not say it"
    if not all(_is_known(key, rollup, columns) for key in plan.keys):
        return "it has other groups"
    missing = [call for call in plan.aggregates if stand_in(measure_of(call), shape) is None]
    if missing:
        return f"it does not keep {show_call(missing[0])}" + _instead(missing[0])
    return None


def _instead(call: AggregateCall) -> str:
    """Of what needs all values one by one no rollup has enough."""
    if call.function.endswith("_distinct"):
        return ", and no rollup does, because that needs the values themselves; APPROX_DISTINCT can be kept"
    if call.function.startswith("percentile"):
        return ", and no rollup does, because that needs the values themselves; APPROX_PERCENTILE can be kept"
    return ""


def _match(rollup: RollupDefinition, plan: AggregatePlan) -> Match:
    family = shape_of(rollup).family
    asked = [*_conjuncts(plan.static_predicate), *_conjuncts(plan.stream_predicate)]
    kept = [*_conjuncts(family.static_predicate), *_conjuncts(family.stream_predicate)]
    conditions = tuple(_over_keys(c, rollup) for c in asked if c not in kept)
    return Match(rollup, conditions, tuple(_over_keys(key, rollup) for key in plan.keys))


def _columns(rollup: RollupDefinition) -> set[str]:
    """Columns with a known value in each cell: those that are keys themselves."""
    return {key.name for key in shape_of(rollup).family.keys if isinstance(key, Column)}


def _is_known(expr: Expr, rollup: RollupDefinition, columns: set[str]) -> bool:
    return expr in shape_of(rollup).family.keys or columns_of(expr) <= columns


def _over_keys(expr: Expr, rollup: RollupDefinition) -> Expr:
    """The expression over a cell's keys: one that is a key becomes a column of its own."""
    keys = shape_of(rollup).family.keys
    if expr in keys and not isinstance(expr, Column):
        return Column(f"key.{keys.index(expr)}", expr.type)
    return expr


def _conjuncts(predicate: Expr | None) -> list[Expr]:
    if predicate is None:
        return []
    if isinstance(predicate, Call) and predicate.operation == "and":
        return [part for argument in predicate.arguments for part in _conjuncts(argument)]
    return [predicate]
