"""Rolls readings up before retention deletes them, and removes files that the journal no longer names.

One step makes cells of readings, merges expired blocks into a coarser tier, and merges small files. A tier is stored and
expires in blocks.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from penstock.catalog.catalog import Catalog
from penstock.catalog.rollup_records import RollupDefinition, RollupFile, RollupState, RollupStep, Tier
from penstock.catalog.state import CatalogState
from penstock.clock import Clock
from penstock.operators.aggregate.history import SliceRequest, slice_log
from penstock.operators.aggregate.partials.base import Ints, Partial
from penstock.operators.aggregate.rollups.cells import RollupCells, Shape, added_up, of_rows, shape_of
from penstock.operators.aggregate.rollups.files import FOLDER, path_of, read_cells, write_cells
from penstock.operators.base.log_reader import LogReader
from penstock.streams.log.atomic_file import CrashPoint, as_storage_error, no_crash
from penstock.streams.log.stream_log import StreamLog
from penstock.streams.maintenance import own_now
from penstock.views.standing_queries import StandingQueries

CELLS_PER_BLOCK = 240  # of one group
STEP_ROWS = 1 << 21  # readings that one step takes in at most: its cells are in memory
CELLS_AT_ONCE = 1 << 20
FILES_PER_BLOCK = 4
_Read = Callable[[RollupFile], RollupCells]
Place = tuple[int, int]  # the number of a tier and where a block of it begins


@dataclass(frozen=True, slots=True)
class Level:
    """A tier at a moment: cells that begin before `begins_us` belong to coarser ones; None: to none."""

    every_us: int
    block_us: int
    begins_us: int | None

    def block_of(self, starts: Ints) -> Ints:
        blocks: Ints = np.floor_divide(starts, self.block_us) * self.block_us
        return blocks

    def has_expired(self, file: RollupFile) -> bool:
        """Whether nothing of a file's block belongs to this tier any more."""
        return self.begins_us is not None and file.block_us + self.block_us <= self.begins_us


def levels_at(tiers: Sequence[Tier], now_us: int) -> list[Level]:
    """The tiers, finest first. A tier gives up whole blocks, so that its KEEP is the least it holds."""
    widths = [tier.every_us for tier in tiers]
    blocks = [after * -(-CELLS_PER_BLOCK * width // after) for width, after in pairwise(widths)]
    blocks.append(CELLS_PER_BLOCK * widths[-1])
    return [
        Level(tier.every_us, block, None if tier.keep_us is None else (now_us - tier.keep_us) // block * block)
        for tier, block in zip(tiers, blocks, strict=True)
    ]


def places_of(starts: Ints, levels: Sequence[Level]) -> Ints:
    """The number of each cell's tier: the finest that still holds its time; as many as there are tiers: none."""
    places = np.full(len(starts), len(levels), np.int64)
    for place, level in reversed(list(enumerate(levels))):
        places[slice(None) if level.begins_us is None else starts >= level.begins_us] = place
    return places


@dataclass(slots=True)
class RollupWrite:
    """The result of a step: cells by tier and block to write, and the files that they replace."""

    position: int
    cells: dict[Place, RollupCells] = field(default_factory=dict)
    removed: list[RollupFile] = field(default_factory=list)
    gone_us: int | None = None

    def closing(self, added: Iterable[RollupFile]) -> RollupStep:
        return RollupStep(self.position, tuple(added), tuple(file.number for file in self.removed), self.gone_us)


class RollupWriter:
    """Makes the steps of one rollup. `read` gives a file's cells."""

    def __init__(self, shape: Shape, levels: Sequence[Level], read: _Read) -> None:
        self._shape, self._levels, self._read = shape, levels, read
        self._partials: list[Partial] = shape.partials()

    def step(self, rolled: RollupState, log_reader: LogReader, end: int) -> RollupWrite:
        """Take in the readings from where the rollup stands up to a position, or some of them."""
        step = RollupWrite(min(end, rolled.position + STEP_ROWS))
        parts: dict[Place, list[RollupCells]] = {}
        fresh = self._of_log(log_reader, rolled.position, step.position)
        if fresh is not None:
            self._put(step, parts, fresh, 0)
        for file in rolled.files:
            tier = self._tier_of(file)
            if self._levels[tier].has_expired(file):
                step.removed.append(file)
                self._put(step, parts, self._read(file), tier + 1)
        gone = {file.number for file in step.removed}
        for place, new in parts.items():
            beside = [f for f in rolled.files if f.number not in gone and self._place_of(f) == place]
            joined = few_large(beside, sum(len(part) for part in new))
            step.removed += joined
            width = self._levels[place[0]].every_us
            step.cells[place] = added_up([*new, *(self._read(file) for file in joined)], width, self._partials)
        return step

    def _of_log(self, log_reader: LogReader, first: int, end: int) -> RollupCells | None:
        """The readings in [first, end) as cells of the finest tier."""
        width, parts = self._levels[0].every_us, []
        request = SliceRequest(self._shape.family, tuple(self._shape.measures), width)
        for sliced in slice_log(log_reader, request, [(first, end)]):
            parts.append(of_rows(sliced))
            if sum(map(len, parts)) > CELLS_AT_ONCE:
                parts = [added_up(parts, width, self._partials)]
        found = added_up(parts, width, self._partials) if parts else None
        return found if found is not None and len(found) else None

    def _put(self, step: RollupWrite, parts: dict[Place, list[RollupCells]], cells: RollupCells, least: int) -> None:
        """Sort cells by tier, none of them finer than `least`, and by block. Cells older than all tiers are dropped."""
        places = np.maximum(places_of(cells.starts, self._levels), least)
        for tier in np.unique(places).tolist():
            mine = places == tier
            if tier == len(self._levels):
                gone_us = int(cells.latest[mine].max()) + 1
                step.gone_us = max(gone_us, step.gone_us if step.gone_us is not None else gone_us)
                continue
            chosen = cells.take(mine)
            blocks = self._levels[tier].block_of(chosen.starts)
            for block in np.unique(blocks).tolist():
                parts.setdefault((tier, block), []).append(chosen.take(blocks == block))

    def _tier_of(self, file: RollupFile) -> int:
        return next(i for i, level in enumerate(self._levels) if level.every_us == file.every_us)

    def _place_of(self, file: RollupFile) -> Place:
        return self._tier_of(file), file.block_us


def few_large(files: Sequence[RollupFile], cells: int) -> list[RollupFile]:
    """Which files of a block are rewritten together with a number of new cells.

    None while there are few; then the small ones, so that a cell is written as often as its block's size doubles.
    """
    if len(files) < FILES_PER_BLOCK:
        return []
    chosen: list[RollupFile] = []
    for file in sorted(files, key=lambda f: f.cells):
        if len(chosen) >= FILES_PER_BLOCK - 1 and file.cells > cells:
            break
        chosen.append(file)
        cells += file.cells
    return chosen


GRACE_S = 60.0  # for readers that have the names of files and have not opened them yet


class RollupKeeper:
    """Rolls up all tables. Called by the housekeeper's thread. `failures` has, by rollup, the error that delays retention."""

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        log: StreamLog,
        clock: Clock,
        standing: StandingQueries,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self._root, self._catalog, self._log, self._clock, self._standing = root, catalog, log, clock, standing
        self._crash_point = crash_point
        self._unnamed: dict[Path, tuple[float, int]] = {}  # since when, and since which entry, nothing names a file
        self.failures: dict[int, str] = {}
        # A file has no journal entry until it is complete, and two steps from one state would write the same names.
        self._lock = threading.RLock()

    def retain(self, table_id: int, position: int) -> None:
        """Let rows below a position go, once every rollup of the table has them."""
        with self._lock:
            for rollup in self._catalog.state.rollups_of(table_id):
                try:
                    self._close(rollup, position)
                    self.failures.pop(rollup.id, None)
                except Exception as problem:
                    self.failures[rollup.id] = as_storage_error(problem).message
                    raise
            self._catalog.retain(table_id, position)

    def _close(self, rollup: RollupDefinition, position: int) -> None:
        """Step by step, each durable before the next."""
        while True:
            state = self._catalog.state
            rolled, table = state.rolled_up(rollup.id), state.tables_by_id.get(rollup.table_id)
            if rolled is None or table is None or rolled.position >= position:
                return  # it was dropped, or has them
            log_reader = LogReader(self._log.folder, table, state.rows(table.id))
            now_us = own_now(table, log_reader.segments(), self._clock)
            stepper = RollupWriter(shape_of(rollup), levels_at(rollup.tiers, now_us), partial(self._read, rollup))
            self._write(rollup, rolled, stepper.step(rolled, log_reader, position))

    def _read(self, rollup: RollupDefinition, file: RollupFile) -> RollupCells:
        return read_cells(self._root, rollup.id, file, shape_of(rollup))

    def _write(self, rollup: RollupDefinition, rolled: RollupState, step: RollupWrite) -> None:
        shape, number = shape_of(rollup), rolled.next_number
        added: list[RollupFile] = []
        for (tier, block_us), cells in sorted(step.cells.items(), key=lambda item: item[0]):
            place = (number + len(added), rollup.tiers[tier].every_us, block_us)
            added.append(write_cells(self._root, rollup.id, cells, shape, place, self._crash_point))
        # The files are written: with the journal entry they become part of the rollup.
        self._catalog.close_rollup(rollup, rolled, step.closing(added))
        self._crash_point("rollup:closed")

    def sweep(self, grace_s: float = GRACE_S) -> None:
        """Remove files that the journal does not name: replaced, dropped, or left by a crash.

        Not before cycles have come as far: until then an answer may stand on any state in between.
        """
        folder = self._root / FOLDER
        if folder.is_dir():
            with self._lock:
                self._sweep(folder, grace_s)

    def _sweep(self, folder: Path, grace_s: float) -> None:
        state, now_s = self._catalog.state.frozen(), time.monotonic()
        with self._standing.locked() as store:
            committed = store.state.position
        named = {path_of(self._root, *each) for each in _numbers(state)}
        found = {path for path in folder.glob("*/*/*") if path not in named}
        self._unnamed = {path: self._unnamed.get(path, (now_s, state.position)) for path in found}
        for path, (since_s, position) in list(self._unnamed.items()):
            if committed >= position and now_s - since_s >= grace_s:
                path.unlink(missing_ok=True)
                del self._unnamed[path]
        ids = {str(rollup.id) for rollup in state.rollups.values()}
        for each in folder.iterdir():
            if each.name not in ids and not any(path.is_relative_to(each) for path in self._unnamed):
                shutil.rmtree(each, ignore_errors=True)


def _numbers(state: CatalogState) -> set[tuple[int, int, int]]:
    """The files that a state names: rollup, width and number."""
    rolled = ((rollup.id, state.rolled_up(rollup.id)) for rollup in state.rollups.values())
    return {(number, f.every_us, f.number) for number, known in rolled if known is not None for f in known.files}
