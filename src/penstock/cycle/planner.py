"""The planner: plans the next cycle from what is on disk now.

It runs in Spark's planner process, a child of the JVM. It reads data heads first and the journal second, so that it
sees every entry that those rows depend on.
"""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from pathlib import Path

from penstock.catalog.definition_json import quarantined_by
from penstock.catalog.journal import JournalMoved, JournalReader
from penstock.catalog.state import CatalogState
from penstock.clock import SECOND, Clock
from penstock.clock_guard import FolderClock
from penstock.cycle.cut import FirstNeeded, Limits, consistent_cut, plan_cycle
from penstock.cycle.folder import DataFolder
from penstock.cycle.low_class import CatchUp, LowClassPace, MeasuredPace, first_definition, late_after, waiting_queries
from penstock.cycle.offset import Offset
from penstock.cycle.record_queue import wants_cycle
from penstock.cycle.wakeup import Wakeup
from penstock.pipeline.tasks import Exclusions
from penstock.streams.log.release_memory import give_back_memory
from penstock.streams.log.segments import Segment, list_readable

EDGE_INTERVAL_US = SECOND
# The longest wait in one call: Spark holds a lock meanwhile, and a planner whose JVM was killed notices after it.
WAIT_MAX_S = 0.2
# Spark ends Python workers that idle for a minute, and their soft state with them.
KEEP_WARM_US = 45 * SECOND
# So many entries leave lines behind that lie between what stays.
_SETTLE_AFTER = 5000


class Planner:
    """Plans cycles for one data folder."""

    def __init__(
        self,
        folder: DataFolder,
        limits: Limits,
        clock: Clock | None = None,
        shrink: int = 1,
        pace: LowClassPace | None = None,
    ) -> None:
        """`shrink`: the first cycle takes that many times fewer rows, each later one twice as many as the one before."""
        self.pace: LowClassPace = pace or MeasuredPace()
        self._folder = folder
        self.limits = limits
        self._shrink = shrink
        self._clock = clock or FolderClock(folder.root)
        self._reader = JournalReader(folder.root)
        self._state = CatalogState(texts=False)
        # A restarted pipeline shows that it works by running a cycle, and warms its workers by it.
        self._fresh = True
        self._not_before = 0.0
        self._taken_in = 0  # entries since memory was given back

    def await_latest(self, start: Offset, wakeup: Wakeup) -> Offset:
        """`latest`, after a wait where nothing is due: for the end of the pause between two cycles, a signal, or an edge."""
        pause_s = self._not_before - time.monotonic()
        time.sleep(min(WAIT_MAX_S, max(0.0, pause_s)))
        if pause_s > WAIT_MAX_S:
            return start
        wakeup.clear()  # before the look: what the look misses ends the wait
        found = self.latest(start)
        if found == start:
            idle_s = (self._due_us(start) - self._clock.now_us()) / SECOND
            if wakeup.wait(min(WAIT_MAX_S, max(0.0, idle_s))):
                found = self.latest(start)
        return found

    def latest(self, start: Offset) -> Offset:
        """The end of the next cycle, or `start` itself where there is nothing to do yet."""
        if time.monotonic() < self._not_before:
            return start
        self.pace.end_cycle()
        segments = self._list_log()
        known = self.state_at(start.journal)
        # A dropped table's files stay for a while; ids are given once, so an old one that is not there is dropped.
        dropped = {t for t in segments if t < known.next_table_id and t not in known.tables_by_id}
        heads = {table: found[-1].end for table, found in segments.items() if found and table not in dropped}
        ahead = list(self._reader.waiting())
        for entry in ahead:
            # Rows that an entry has seen were on disk: if they are lost, the entry must not wait for them for ever.
            for table, head in entry.heads.items():
                heads[table] = max(heads.get(table, 0), head)
        limits = self.limits.shrunk(self._shrink)
        pace = self.pace
        if start.late is not None and (first := first_definition(ahead, waiting_queries(known))) is not None:
            seen, ahead = ahead[first].heads, ahead[:first]
            heads = {table: min(head, seen.get(table, 0)) for table, head in heads.items()}
            pace = CatchUp(pace)
        cut = consistent_cut(start, heads, ahead, limits)
        now_us = self._now(start, segments)
        idle = cut == (start.data, start.journal) and not start.filling and start.late is None
        wanted = self._fresh or wants_cycle(self._folder)
        if idle and not wanted and now_us < self._due_us(start):
            return start
        if wanted:
            now_us = max(now_us, start.now_us + 1)  # an offset that equals its start is no cycle
            self._fresh = False
        self._not_before = time.monotonic() + limits.interval_s
        self._shrink = max(1, self._shrink // 2)
        state = self.state_at(cut[1])
        if first_definition([entry for entry in ahead if entry.pos <= cut[1]], waiting_queries(state)) is not None:
            pace = CatchUp(pace)
        first_needed = FirstNeeded(lambda t: segments.get(t, []), state.retention)
        end = plan_cycle(start, cut, state, now_us, first_needed, limits)
        return replace(end, late=late_after(start, end, state, pace, limits.late_cycles))

    def _list_log(self) -> dict[int, list[Segment]]:
        tables = [int(p.name) for p in Path(self._folder.log).iterdir() if p.name.isdigit()]
        return {table: list_readable(self._folder.log, table) for table in tables}

    def _now(self, start: Offset, segments: dict[int, list[Segment]]) -> int:
        """The server's NOW, but never before a time that a transaction-time row carries already."""
        given = [
            found[-1].max_ts
            for table, found in segments.items()
            if found and (t := self._state.tables_by_id.get(table)) and t.options.time == "transaction"
        ]
        return max(self._clock.now_us(), start.now_us, *given)

    def _due_us(self, start: Offset) -> int:
        """When a cycle is due even if nothing comes."""
        try:
            edge = int((self._folder.tmp / "next_edge").read_text() or 0)
        except (OSError, ValueError):
            edge = 0
        warm = start.now_us + KEEP_WARM_US
        return min(warm, max(edge, start.now_us + EDGE_INTERVAL_US)) if edge > 0 else warm

    def skipped(self, position: int) -> Exclusions:
        """What a cycle that ends at a journal position leaves out, because later entries have taken it out of the cycles.

        Such an entry comes after the rows that stopped its queries. Without this the queries would get these rows again.
        """
        self.state_at(position)
        later = [entry for entry in self._reader.waiting() if entry.kind == "quarantine"]
        queries = {q: why for entry in reversed(later) for q, why in quarantined_by(entry).items()}
        return Exclusions(queries, frozenset(e.body["unreadable"] for e in later if e.body["unreadable"] is not None))

    def state_at(self, position: int) -> CatalogState:
        """The definitions as they stood after a journal entry."""
        if self._state.position > position:  # a cycle is planned once more, which is rare: start from the beginning
            self._begin_anew()
        before = self._state.position
        try:
            self._state.apply_many(self._reader.entries(upto=position))
        except JournalMoved:
            self._begin_anew()
            self._state.apply_many(self._reader.entries(upto=position))
        self._taken_in += abs(self._state.position - before)
        if self._taken_in >= _SETTLE_AFTER:
            self._taken_in = 0
            gc.collect()
            gc.freeze()
            give_back_memory()
        return self._state

    def _begin_anew(self) -> None:
        self._reader, self._state = JournalReader(self._folder.root), CatalogState(texts=False)
