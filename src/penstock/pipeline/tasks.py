"""Turn a cycle into tasks: which rows each one reads, from which files, for what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from pyspark.sql.datasource import InputPartition

from penstock.catalog.state import CatalogState
from penstock.cycle.cut import FillPiece, fill_pieces
from penstock.cycle.late import late_pieces
from penstock.cycle.offset import Offset
from penstock.operators.base.blocks import BLOCK_ROWS
from penstock.operators.join.steps.units import LIVE, JoinUnit, join_units
from penstock.streams.log.segments import Listing, Slice

# Below this a second task costs more than it saves.
TASK_MIN_ROWS = 30_000


@dataclass(frozen=True, slots=True)
class Unit:
    """A run of rows of one table: new ones for all queries, or old ones for those that fill or stand behind."""

    kind: Literal["live", "fill", "late"]
    table_id: int
    first: int
    end: int
    slices: tuple[Slice, ...]
    spans: tuple[tuple[int, int, int], ...] = ()
    low: bool = True  # whether queries that may stand behind take part


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Limits of a worker for a task; 0 means no limit, except for joins."""

    memory_mb: int = 0
    function_timeout_ms: int = 0
    join_memory_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Exclusions:
    """What a cycle leaves out because of a later journal entry: queries with reasons, and tables not to be read.

    The record holds the failure of each of these queries, so that readers of the record need no later entry.
    """

    queries: Mapping[int, str] = field(default_factory=dict)
    tables: frozenset[int] = frozenset()


@dataclass
class CycleTask(InputPartition):
    """One Spark task. The first of a cycle also reports the cycle's offsets."""

    folder: str
    journal: int
    units: tuple[Unit, ...]
    cycle: tuple[dict[str, object], dict[str, object]] | None = field(default=None)
    joins: tuple[JoinUnit, ...] = ()
    skipped: Exclusions = Exclusions()
    limits: WorkerLimits = WorkerLimits()
    tasks: int = 1  # of the cycle, which the first one reports

    def __post_init__(self) -> None:
        super().__init__(None)


def cycle_tasks(
    log: Path,
    cycle: tuple[Offset, Offset],
    state: CatalogState,
    parallelism: int,
    skipped: Exclusions = Exclusions(),
    limits: WorkerLimits = WorkerLimits(),
) -> list[CycleTask]:
    """The tasks of the cycle from one offset to another: at least one, so that the cycle commits even without rows."""
    start, end = cycle
    listed = Listing(log)
    readable = sorted((t, e) for t, e in end.data.items() if t not in skipped.tables)
    fresh = [(t, start.data.get(t, 0), e) for t, e in readable if e > start.data.get(t, 0)]
    pieces = [p for p in fill_pieces(start, end, state) if p.table_id not in skipped.tables]
    late = [p for p in late_pieces(start.data, start.late, end.late) if p[0] not in skipped.tables]
    total = sum(e - s for _, s, e in (*fresh, *late)) + sum(p.end - p.first for p in pieces)
    size = max(TASK_MIN_ROWS, -(-total // parallelism))
    units = [
        Unit("live", t, lo, hi, listed.files(t, lo, hi), low=end.late is None)
        for t, s, e in fresh
        for lo, hi in _cut(s, e, size)
    ]
    units += [Unit("late", t, lo, hi, listed.files(t, lo, hi)) for t, s, e in late for lo, hi in _cut(s, e, size)]
    units += [_fill_unit(listed, p, lo, hi) for p in pieces for lo, hi in _cut(p.first, p.end, size)]
    root = str(log.parent)
    tasks = [CycleTask(root, end.journal, group) for group in _pack(units, size)] or [CycleTask(root, end.journal, ())]
    tasks[0].cycle = (start.to_json(), end.to_json())
    for task in tasks:
        task.skipped, task.limits = skipped, limits
    _add_joins(tasks, join_units(listed, start, end, state, parallelism), parallelism)
    tasks[0].tasks = len(tasks)
    return tasks


Chooser: TypeAlias = Callable[[tuple[int, ...]], Mapping[int, str]]
"""Which algorithms the joins of a step run by, by number; those that it leaves out run by their default."""


def stamp_joins(tasks: Sequence[CycleTask], choose: Chooser) -> None:
    """Say in every part of a step by which algorithm each join runs: all parts of a step must do the same."""
    chosen: dict[tuple[int, ...], Mapping[int, str]] = {}
    for task in tasks:
        stamped = []
        for unit in task.joins:
            if unit.generation == LIVE:
                if unit.queries not in chosen:
                    chosen[unit.queries] = choose(unit.queries)
                unit = replace(unit, algorithms=chosen[unit.queries])
            stamped.append(unit)
        task.joins = tuple(stamped)


def _add_joins(tasks: list[CycleTask], units: list[JoinUnit], parallelism: int) -> None:
    """Parts of joins go to different tasks."""
    for unit in units:
        at = unit.part % parallelism
        while len(tasks) <= at:
            tasks.append(replace(tasks[0], units=(), cycle=None, joins=()))
        tasks[at].joins += (unit,)


def _fill_unit(listed: Listing, piece: FillPiece, first: int, end: int) -> Unit:
    spans = tuple((q, max(a, first), min(b, end)) for q, a, b in piece.spans if a < end and b > first)
    return Unit("fill", piece.table_id, first, end, listed.files(piece.table_id, first, end), spans)


def _cut(first: int, end: int, size: int) -> list[tuple[int, int]]:
    """Ranges of about `size` rows that stay inside blocks."""
    out = []
    while first < end:
        last = min(end, first + size, (first // BLOCK_ROWS + 1) * BLOCK_ROWS)
        out.append((first, last))
        first = last
    return out


def _pack(units: list[Unit], size: int) -> list[tuple[Unit, ...]]:
    """As few tasks as `size` allows, about equally loaded: a straggler costs the whole cycle."""
    total = sum(u.end - u.first for u in units)
    groups: list[list[Unit]] = [[] for _ in range(-(-total // size))]
    loads = [0] * len(groups)
    for unit in sorted(units, key=lambda u: u.first - u.end):
        lightest = loads.index(min(loads))
        groups[lightest].append(unit)
        loads[lightest] += unit.end - unit.first
    return [tuple(g) for g in groups if g]
