"""The state of one table's ingest: times and keys as of the last queued reading, and how to go back from there.

Readings are checked against rows that are queued but not yet written. Should the write fail, everything queued
fails with it, and `settle` takes the changes back, last first.

All of it follows from the log. A sidecar holds it as of some position (`Memory`), so that a start reads only the rows after
that. Without a sidecar, or with one that does not fit, the whole log is read: two columns of it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, VERSION_COLUMN, Table
from penstock.catalog.rows import Int32s, Int64s
from penstock.errors import PenstockError
from penstock.streams.ingest.rules import (
    ACCEPT,
    CLAMP,
    COUNTS,
    NO_TIME,
    REFUSE,
    Decisions,
    KeyMemory,
    OrderState,
    apply_rules,
    key_fields,
    raise_newest,
    take_back,
)
from penstock.streams.log.atomic_file import make_folder, store
from penstock.streams.log.checksums import read_sealed, sealed_file
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, slices

logger = logging.getLogger(__name__)

_COLUMNS = [VERSION_COLUMN.name, TIME_COLUMN]
_NONE = np.empty(0, dtype=np.int64)
_LISTS = ("newest", "live", "live_sids", "live_times")


@dataclass(frozen=True, slots=True)
class Memory:
    """As of log position `position`: newest time by sid, the table's newest, and the rows with live keys.

    `live` are the log positions of rows within the deduplication time of their sensor's newest, `live_sids` and
    `live_times` theirs; empty for a table that does not deduplicate.
    """

    position: int
    latest: int
    newest: Int64s
    live: Int64s
    live_sids: Int64s
    live_times: Int64s


EMPTY = Memory(0, NO_TIME, _NONE, _NONE, _NONE, _NONE)


def advance(memory: Memory, segments: list[Segment], head: int, sid_of: Int32s, within_us: int | None) -> Memory:
    """The memory as of `head`, from the rows in between. `sid_of` maps vids to sids."""
    sids = int(sid_of.max()) + 1 if len(sid_of) else 0
    newest = np.full(max(sids, len(memory.newest)), NO_TIME, dtype=np.int64)
    newest[: len(memory.newest)] = memory.newest
    latest = memory.latest
    pieces = [(memory.live, memory.live_sids, memory.live_times)]
    for part in slices(segments, memory.position, head):
        try:
            table = read_slice(part, _COLUMNS)
        except PenstockError as problem:
            # Its rows are lost to every reader, which is told so. New readings need not wait for a backup.
            logger.warning("the order of readings is checked without these rows: %s", problem)
            continue
        vids = table.column(VERSION_COLUMN.name).to_numpy()
        times = table.column(TIME_COLUMN).cast(pa.int64()).to_numpy()
        raise_newest(newest, vids, times, sid_of)
        latest = max(latest, int(times.max()))
        if within_us is not None:
            row_sids = sid_of[vids].astype(np.int64)
            # What is too old now stays too old: dropped per file, so that memory holds live rows only.
            live = times >= newest[row_sids] - within_us
            positions = np.arange(part.first, part.end, dtype=np.int64)
            pieces.append((positions[live], row_sids[live], times[live]))
    if within_us is None:
        return Memory(head, latest, newest, _NONE, _NONE, _NONE)
    positions, row_sids, times = (np.concatenate([piece[i] for piece in pieces]) for i in range(3))
    floor = segments[0].first if segments else head
    live = (times >= newest[row_sids] - within_us) & (positions >= floor)
    return Memory(head, latest, newest, positions[live], row_sids[live], times[live])


def read_live(segments: list[Segment], positions: Int64s, columns: list[str]) -> pa.Table:
    """The given columns of the rows at sorted positions."""
    pieces: list[pa.Table] = []
    for segment in segments:
        low, high = np.searchsorted(positions, [segment.first, segment.end])
        if low == high:
            continue
        wanted = positions[low:high]
        part = slices([segment], int(wanted[0]), int(wanted[-1]) + 1)[0]
        pieces.append(read_slice(part, columns).take(pa.array(wanted - wanted[0])))
    return pa.concat_tables(pieces, promote_options="default") if pieces else pa.table({name: [] for name in columns})


def save_memory(memory: Memory, folder: Path, temporary: Path) -> None:
    """Write the sidecar. It may be lost, so nothing waits for it."""
    make_folder(folder)
    lists = {name: pa.array([getattr(memory, name)], pa.list_(pa.int64())) for name in _LISTS}
    table = pa.table({"position": pa.array([memory.position]), "latest": pa.array([memory.latest]), **lists})
    store(temporary, folder / "newest.arrow", sealed_file(table.schema, table.to_batches()), at="memory")


def load_memory(folder: Path, head: int) -> Memory:
    """The sidecar, or EMPTY where there is none that fits a log of this length."""
    path = folder / "newest.arrow"
    if not path.exists():
        return EMPTY
    try:
        with pa.OSFile(str(path)) as source:
            row = read_sealed(path, source)
        position = int(row.column("position")[0].as_py())
        latest = int(row.column("latest")[0].as_py())
        lists = [
            row.column(name).combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(np.int64)
            for name in _LISTS
        ]
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, IndexError, OverflowError) as problem:
        logger.warning("%s is read anew from the log: %s", path, problem)
        return EMPTY
    return Memory(position, latest, *lists) if position <= head else EMPTY


POLICIES = {"refuse": REFUSE, "clamp": CLAMP, "accept": ACCEPT}


@dataclass(slots=True)
class Verdict:
    """What the rules said about each reading of a push, and the state before each of them."""

    sids: Int32s
    times: Int64s
    keys: Int64s
    code: np.ndarray[Any, np.dtype[np.uint8]]
    marks: np.ndarray[Any, np.dtype[np.uint8]]
    old_newest: Int64s
    old_remembered: Int64s
    old_latest: int

    def decisions(self) -> Decisions:
        return self.code, self.marks, self.old_newest, self.old_remembered


@dataclass(slots=True)
class SensorOrder:
    """Newest time by sid, the table's newest, keys. `lock` is held from check to append: log order is check order."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    failures: int = 0
    newest: Int64s = field(default_factory=lambda: np.full(1024, NO_TIME, dtype=np.int64))
    latest: Int64s = field(default_factory=lambda: np.full(1, NO_TIME, dtype=np.int64))
    counts: Int64s = field(default_factory=lambda: np.zeros((1024, COUNTS), dtype=np.int64))
    keys: KeyMemory | None = None
    under_way: deque[tuple[Future[int], Verdict]] = field(default_factory=deque)

    def restore(self, table: Table, memory: Memory, segments: list[Segment]) -> None:
        self._grow(len(memory.newest))
        self.newest[: len(memory.newest)] = memory.newest
        self.latest[0] = memory.latest
        if table.options.deduplicate is not None:
            names = key_fields(table)
            self.keys = KeyMemory(table.options.deduplicate.within_us, len(names))
            rows = read_live(segments, memory.live, names)
            # The array of times may be another one once the keys have their numbers.
            numbers = self.keys.numbers(memory.live_sids, rows.columns)
            self.keys.times[numbers] = memory.live_times

    def check(self, table: Table, sids: Int32s, times: Int64s | None, fields: list[pa.Array], now: int) -> Verdict:
        """Judge readings in order and move the state past them. `sids` of -1 are left out."""
        count = len(sids)
        if count:
            self._grow(int(sids.max()) + 1)
        options = table.options
        if options.time == "transaction":
            # As the log stamps them: a clock that stepped back gives no time before the table's newest.
            now = max(now, int(self.latest[0]))
        stored = np.full(count, NO_TIME, dtype=np.int64) if times is None else times.copy()
        verdict = Verdict(
            sids,
            stored,
            self._numbers(table, sids, stored, fields, now),
            np.zeros(count, dtype=np.uint8),
            np.zeros(count, dtype=np.uint8),
            np.empty(count, dtype=np.int64),
            np.empty(count if self.keys is not None else 0, dtype=np.int64),
            int(self.latest[0]),
        )
        keeps = options.retention_us if options.retention_us is not None and options.time == "valid" else -1
        within = self.keys.within_us if self.keys is not None else 0
        lateness = options.lateness_us if options.lateness_us is not None else -1
        watermark = int(options.watermark_us) if options.watermark_us is not None else int(NO_TIME)
        rules = (now, options.max_ahead_us, keeps, POLICIES[options.out_of_order], within, lateness, watermark)
        apply_rules(sids, stored, verdict.keys, rules, self._state(), verdict.decisions())
        return verdict

    def take_back(self, verdict: Verdict) -> None:
        """Undo the newest push: its rows will not be in the log."""
        take_back(verdict.sids, verdict.keys, self._state(), verdict.decisions())
        self.latest[0] = verdict.old_latest

    def settle(self, failures: int) -> None:
        """Forget pushes that are stored; if a commit has failed since, take back all that are not."""
        while self.under_way and _stored(self.under_way[0][0]):
            self.under_way.popleft()
        if failures != self.failures:
            # The log answers in order and fails all that is queued, so what is left here is gone.
            while self.under_way:
                self.take_back(self.under_way.pop()[1])
            self.failures = failures
        if self.keys is not None and self.keys.needs_sweep:
            # Pushes under way hold numbers of keys: their rows are queued, so this waits for one commit at most.
            wait([future for future, _ in self.under_way])
            if all(_stored(future) for future, _ in self.under_way):
                self.under_way.clear()
                self.keys.sweep(self.newest)

    def _state(self) -> OrderState:
        remembered = self.keys.times if self.keys is not None else _NONE
        return self.newest, self.latest, self.counts, remembered

    def _numbers(self, table: Table, sids: Int32s, times: Int64s, fields: list[pa.Array], now: int) -> Int64s:
        if self.keys is None or table.stream is None:
            return _NONE
        by_name = {f.name: column for f, column in zip(table.stream.fields, fields, strict=True)}
        columns = [
            np.where(times == NO_TIME, now, times) if name == TIME_COLUMN else by_name[name]
            for name in key_fields(table)
        ]
        return self.keys.numbers(sids, columns)

    def _grow(self, sids: int) -> None:
        if sids > len(self.newest):
            newest = np.full(max(sids, 2 * len(self.newest)), NO_TIME, dtype=np.int64)
            counts = np.zeros((len(newest), COUNTS), dtype=np.int64)
            newest[: len(self.newest)], counts[: len(self.counts)] = self.newest, self.counts
            self.newest, self.counts = newest, counts


def _stored(future: Future[int]) -> bool:
    return future.done() and future.exception() is None
