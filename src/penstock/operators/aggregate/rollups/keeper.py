"""Rolls readings up before retention deletes them, and removes files that the journal no longer names."""

from __future__ import annotations

import shutil
import threading
import time
from functools import partial
from pathlib import Path

from penstock.catalog.catalog import Catalog
from penstock.catalog.rollup_records import RollupDefinition, RollupFile, RollupState
from penstock.catalog.state import CatalogState
from penstock.clock import Clock
from penstock.operators.aggregate.rollups.cells import RollupCells, shape_of
from penstock.operators.aggregate.rollups.files import FOLDER, path_of, read_cells, write_cells
from penstock.operators.aggregate.rollups.roll_up import RollupWrite, RollupWriter, levels_at
from penstock.operators.base.log_reader import LogReader
from penstock.streams.log.atomic_file import CrashPoint, as_storage_error, no_crash
from penstock.streams.log.stream_log import StreamLog
from penstock.streams.maintenance import own_now
from penstock.views.standing_queries import StandingQueries

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
