"""Steps that follow the journal: a cycle costs what changed since the last one, however many queries there are."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from penstock.catalog.model import Table
from penstock.cycle.definitions import Changes, Definitions, loading
from penstock.operators.base.step import RowStep, new_steps
from penstock.operators.select.durability import may_wait
from penstock.streams.log.release_memory import give_back_memory

# After so many changes what was loaded is taken out of the collector's sight: Spark's workers run a full collection after
# every task, and over the definitions of ten thousand queries it takes longer than a cycle's work.
_SETTLE_AFTER = 500


@dataclass(slots=True)
class _Live:
    """The steps of all running queries of a table, and the queries that changed since they were brought up to date."""

    steps: tuple[RowStep, ...]
    changes: Changes
    settled: int = 0


@dataclass(slots=True)
class _Fill:
    """The steps of the queries that a fill serves, as they were defined by then."""

    only: frozenset[int]
    mark: tuple[int | None, ...]
    steps: tuple[RowStep, ...]


_LIVE: WeakKeyDictionary[Definitions, dict[tuple[int, bool], _Live]] = WeakKeyDictionary()
_FILLS: WeakKeyDictionary[Definitions, dict[int, _Fill]] = WeakKeyDictionary()


def steps_of(
    definitions: Definitions, table: Table, only: frozenset[int] | None, low: bool = True, others: bool = True
) -> tuple[RowStep, ...]:
    """The steps of a table as the definitions stand. `only`: for a fill.

    Queries that may stand behind have steps of their own: `low` says whether they take part, `others` whether the others do.
    """
    if only is not None:
        return _fill_steps(definitions, table, only)
    steps = _live_steps(definitions, table, False) if others else ()
    if low and (definitions.state.deferrable() or (table.id, True) in _LIVE.get(definitions, {})):
        steps += _live_steps(definitions, table, True)
    return steps


def _live_steps(definitions: Definitions, table: Table, low: bool) -> tuple[RowStep, ...]:
    known = _LIVE.setdefault(definitions, {})
    live = known.get((table.id, low))
    functions = definitions.functions()
    if live is None:
        changes = definitions.gather_changes()
        changes.queries.update(definitions.state.queries_by_id)
        for gone in [key for key in known if key[0] not in definitions.state.tables_by_id]:
            del known[gone]
        live = known[table.id, low] = _Live(new_steps(table.id, functions), changes)
    changed = live.changes.queries
    if changed:
        live.settled += len(changed)
        with loading():
            for query_id in changed:
                query = definitions.state.queries_by_id.get(query_id)
                belongs = query is not None and may_wait(definitions.state, query) == low
                _follow(live.steps, definitions, table, query_id, fill=False, belongs=belongs)
        changed.clear()
        if live.settled >= _SETTLE_AFTER:
            live.settled = 0
            gc.collect()
            gc.freeze()
            give_back_memory()
    return live.steps


def _fill_steps(definitions: Definitions, table: Table, only: frozenset[int]) -> tuple[RowStep, ...]:
    # One fill at a time and table: its pieces come one after the other.
    fills = _FILLS.setdefault(definitions, {})
    positions = definitions.state.query_positions
    only -= definitions.skipped
    mark = tuple(positions[q][1] if q in positions else None for q in sorted(only))
    fill = fills.get(table.id)
    if fill is None or fill.only != only or fill.mark != mark:
        fill = fills[table.id] = _Fill(only, mark, new_steps(table.id, definitions.functions()))
        for query_id in only:
            _follow(fill.steps, definitions, table, query_id, fill=True)
    return fill.steps


def _follow(
    steps: tuple[RowStep, ...],
    definitions: Definitions,
    table: Table,
    query_id: int,
    fill: bool,
    belongs: bool = True,
) -> None:
    query = definitions.state.queries_by_id.get(query_id)
    runs = belongs and query is not None and table.name in query.reads_tables and query_id not in definitions.skipped
    plan = definitions.plan(query_id) if runs else None
    if plan is not None and plan.kernel is not None and table.id not in plan.kernel.tables_read:
        plan = None  # one branch of a query reads one of its tables
    for step in steps:
        step.follow(query_id, query, plan, fill)
