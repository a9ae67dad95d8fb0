"""The state of one table's ingest: times and keys as of the last queued reading, and how to go back from there.

Readings are checked against rows that are queued but not yet written. Should the write fail, everything queued
fails with it, and `settle` takes the changes back, last first.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, Table
from penstock.streams.ingest.deduplication import KeyMemory, key_fields
from penstock.streams.ingest.order_memory import Memory, read_live
from penstock.streams.ingest.rules import (
    ACCEPT,
    CLAMP,
    COUNTS,
    NO_TIME,
    REFUSE,
    Decisions,
    OrderState,
    apply_rules,
    take_back,
)
from penstock.streams.log.segments import Segment

Ints = np.ndarray[Any, np.dtype[np.int64]]

POLICIES = {"refuse": REFUSE, "clamp": CLAMP, "accept": ACCEPT}
_NO_KEYS = np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class Verdict:
    """What the rules said about each reading of a push, and the state before each of them."""

    sids: np.ndarray[Any, np.dtype[np.int32]]
    times: Ints
    keys: Ints
    code: np.ndarray[Any, np.dtype[np.uint8]]
    marks: np.ndarray[Any, np.dtype[np.uint8]]
    old_newest: Ints
    old_remembered: Ints
    old_latest: int

    def decisions(self) -> Decisions:
        return self.code, self.marks, self.old_newest, self.old_remembered


@dataclass(slots=True)
class SensorOrder:
    """Newest time by sid, the table's newest, keys. `lock` is held from check to append: log order is check order."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    failures: int = 0
    newest: Ints = field(default_factory=lambda: np.full(1024, NO_TIME, dtype=np.int64))
    latest: Ints = field(default_factory=lambda: np.full(1, NO_TIME, dtype=np.int64))
    counts: Ints = field(default_factory=lambda: np.zeros((1024, COUNTS), dtype=np.int64))
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

    def check(
        self,
        table: Table,
        sids: np.ndarray[Any, np.dtype[np.int32]],
        times: Ints | None,
        fields: list[pa.Array],
        now: int,
    ) -> Verdict:
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
        rules = (now, options.max_ahead_us, keeps, POLICIES[options.out_of_order], within)
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
        remembered = self.keys.times if self.keys is not None else _NO_KEYS
        return self.newest, self.latest, self.counts, remembered

    def _numbers(
        self, table: Table, sids: np.ndarray[Any, np.dtype[np.int32]], times: Ints, fields: list[pa.Array], now: int
    ) -> Ints:
        if self.keys is None or table.stream is None:
            return _NO_KEYS
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
