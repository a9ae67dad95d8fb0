"""Shared passes that follow the journal: a cycle costs what changed since the last one, however many queries there are."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from penstock.catalog.model import Table
from penstock.cycle.definitions import Changes, Definitions, loading
from penstock.expr.windows import TimeWindow
from penstock.operators.aggregate.step import AggregateStep
from penstock.operators.select.durability import meets_rows
from penstock.operators.select.step import SelectStep
from penstock.sql.plan import AggregatePlan, Plan
from penstock.streams.log.release_memory import give_back_memory

# After so many changes what was loaded is taken out of the collector's sight: Spark's workers run a full collection after
# every task, and over the definitions of ten thousand queries it takes longer than a cycle's work.
_SETTLE_AFTER = 500


@dataclass(slots=True)
class _Live:
    """The pass of all running queries of a table, and the queries that changed since it was brought up to date."""

    shared: SelectStep
    slices: AggregateStep
    changes: Changes
    settled: int = 0


@dataclass(slots=True)
class _Fill:
    """The pass of the queries that a fill serves, as they were defined by then."""

    only: frozenset[int]
    mark: tuple[int | None, ...]
    shared: SelectStep
    slices: AggregateStep


_LIVE: WeakKeyDictionary[Definitions, dict[int, _Live]] = WeakKeyDictionary()
_FILLS: WeakKeyDictionary[Definitions, dict[int, _Fill]] = WeakKeyDictionary()


def shared_pass(definitions: Definitions, table: Table, only: frozenset[int] | None) -> SelectStep:
    """The shared pass of a table as the definitions stand. `only`: for a fill."""
    return (_live_pass(definitions, table) if only is None else _fill_pass(definitions, table, only)).shared


def slice_pass(definitions: Definitions, table: Table, only: frozenset[int] | None) -> AggregateStep:
    """The aggregations of a table as the definitions stand. `only`: for a fill."""
    return (_live_pass(definitions, table) if only is None else _fill_pass(definitions, table, only)).slices


def _live_pass(definitions: Definitions, table: Table) -> _Live:
    passes = _LIVE.setdefault(definitions, {})
    live = passes.get(table.id)
    functions = definitions.functions()
    if live is None:
        changes = definitions.gather_changes()
        changes.queries.update(definitions.state.queries_by_id)
        for gone in passes.keys() - definitions.state.tables_by_id.keys():
            del passes[gone]
        live = passes[table.id] = _Live(SelectStep(functions), AggregateStep(), changes)
    changed = live.changes.queries
    if changed:
        live.settled += len(changed)
        with loading():
            for query_id in changed:
                _follow(live, definitions, table, query_id)
        changed.clear()
        if live.settled >= _SETTLE_AFTER:
            live.settled = 0
            gc.collect()
            gc.freeze()
            give_back_memory()
    return live


def _follow(live: _Live, definitions: Definitions, table: Table, query_id: int) -> None:
    plan = _any_plan(definitions, table, query_id)
    selection = plan.kernel.selection if plan is not None and plan.kernel is not None else None
    if selection is not None and meets_rows(definitions.state.queries_by_id[query_id], selection):
        live.shared.add(query_id, selection)
    elif query_id in live.shared:
        live.shared.remove(query_id)
    sliced = _sliced_over(definitions, table, query_id)
    if sliced:
        live.slices.add(query_id, *sliced)
    elif query_id in live.slices.plans:
        live.slices.remove(query_id)


def _fill_pass(definitions: Definitions, table: Table, only: frozenset[int]) -> _Fill:
    # One fill at a time and table: its pieces come one after the other.
    fills = _FILLS.setdefault(definitions, {})
    positions = definitions.state.query_positions
    only -= definitions.skipped
    mark = tuple(positions[q][1] if q in positions else None for q in sorted(only))
    fill = fills.get(table.id)
    if fill is None or fill.only != only or fill.mark != mark:
        fill = fills[table.id] = _Fill(only, mark, SelectStep(definitions.functions()), AggregateStep())
        for query_id in only:
            plan = _any_plan(definitions, table, query_id)
            kernel = plan.kernel if plan is not None else None
            if kernel is None:
                continue
            # Whatever its strategy is by now: history that a cycle was planned to read is known from then on.
            if kernel.selection is not None and not definitions.state.queries_by_id[query_id].paused:
                fill.shared.add(query_id, kernel.selection)
            elif kernel.aggregation is not None and kernel.aggregation.table_id == table.id:
                fill.slices.add(query_id, kernel.aggregation)
    return fill


def _sliced_over(definitions: Definitions, table: Table, query_id: int) -> tuple[AggregatePlan, ...]:
    """What a query wants sliced of a table's new rows: its aggregates, and those of subqueries that are values in it."""
    plan = _any_plan(definitions, table, query_id)
    if plan is None:
        return ()
    own = (plan.kernel.aggregation,) if plan.kernel is not None and plan.kernel.aggregation is not None else ()
    definition = definitions.state.queries_by_id[query_id]
    # Aggregates over the newest rows read them on request.
    return tuple(
        each
        for each in (*own, *(scalar.plan for scalar in plan.scalars))
        if each.table_id == table.id and isinstance(each.window, TimeWindow) and meets_rows(definition, each)
    )


def _any_plan(definitions: Definitions, table: Table, query_id: int) -> Plan | None:
    definition = definitions.state.queries_by_id.get(query_id)
    if definition is None or table.name not in definition.reads_tables or query_id in definitions.skipped:
        return None
    return definitions.plan(query_id)
