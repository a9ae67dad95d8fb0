"""Commit records: one file per cycle, keyed by its (start, end) offset. The first write wins.

A snapshot folds all records up to a cycle, so that the folder stays small.
"""

from __future__ import annotations

from bisect import insort
from typing import Any

import pyarrow as pa

from penstock.catalog.folder_format import upgrade_format
from penstock.cycle.commit_files import (
    RESULT_SCHEMA,
    CommitRecord,
    list_numbers,
    read_record,
    record_name,
    record_writer,
    snapshot_name,
)
from penstock.cycle.commit_recovery import recover_commits
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import Offset
from penstock.cycle.record_queue import RecordQueue, result_table
from penstock.errors import error
from penstock.streams.log.atomic_file import CrashPoint, no_crash, store

__all__ = ["RESULT_SCHEMA", "CommitRecord", "CommitStore", "read_newest_end"]


class CommitStore:
    """The folder of records. The callback of cycles writes records, the follower snapshots; any thread reads."""

    # Tests end the process here, before and after each step.
    crash_point: CrashPoint = staticmethod(no_crash)

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self.queue = RecordQueue(folder)
        self._upgraded = False
        found = recover_commits(folder)
        self._cycles, self._snapshots, self._follows = found.cycles, found.snapshots, found.follows
        self.last = found.last
        self._journals = found.journals
        self.journal_named = found.journal  # the highest journal position that any record of the folder names

    @property
    def oldest_cycle(self) -> int | None:
        return self._cycles[0] if self._cycles else None

    @property
    def oldest_snapshot(self) -> int | None:
        """The oldest snapshot, if everything before it has been forgotten."""
        covers = self._snapshots and (not self._cycles or self._cycles[0] > self._snapshots[0])
        return self._snapshots[0] if covers else None

    def snapshots(self) -> list[int]:
        return list(self._snapshots)

    def journal_needed(self) -> int:
        """The oldest journal position that a start may need: that of the oldest snapshot; 0 without snapshots."""
        base = self.oldest_snapshot
        return self._journals.get(base, 0) if base is not None else 0

    def cycles(self) -> list[int]:
        return list(self._cycles)

    def read(self, cycle: int) -> CommitRecord:
        if cycle not in self._cycles:
            raise error("cycle_gone", cycle=cycle, oldest=self.oldest_cycle)
        return read_record(self._folder.commits / record_name(cycle))

    def read_snapshot(self, cycle: int) -> CommitRecord:
        return read_record(self._folder.commits / snapshot_name(cycle))

    def foundation(self) -> tuple[CommitRecord | None, list[int]]:
        """The oldest snapshot from which on every record is there (None: from the first cycle on), and those records.

        A crash while old records were removed leaves some of them behind: without what came before they are nothing.
        """
        # The newest record first: another one may be written meanwhile, and is listed before it is the newest.
        cycle = self.last.cycle if self.last else 0
        known, chain = set(self._cycles), []
        while cycle in known:
            chain.append(cycle)
            cycle = self._follows.get(cycle, cycle - 1)
        if cycle == 0:
            return None, chain[::-1]
        base = next((s for s in self._snapshots if s >= cycle), None)
        if base is None:
            raise error("corrupt_segment", segment=record_name(cycle), detail="the commit record is missing")
        return self.read_snapshot(base), [c for c in chain[::-1] if c > base]

    def write(self, start: Offset, end: Offset, results: pa.Table, info: dict[str, Any]) -> CommitRecord | None:
        """Commit a cycle, with the rows that wait for a record. None where this (start, end) has been committed before."""
        if self.last is not None:
            if self.last.end == end and (self.last.start == start or self.last.start.journal < 0):
                return None
            if self.last.end != start:
                known = f"cycle {self.last.cycle} ended at {self.last.end.to_json()}"
                # The streaming query ends by this, and the next one begins at the last record.
                raise error("stale_cycle", detail=f"a cycle starts at {start.to_json()}, but {known}")
        cycle = self.last.cycle + 1 if self.last else 1
        waiting = self.queue.waiting()
        if waiting:
            results = pa.concat_tables([results.cast(RESULT_SCHEMA), result_table(waiting)])
        record = CommitRecord(cycle, start, end, results, info)
        self._write_file(record_name(cycle), record)
        self.queue.written(waiting)
        self._cycles.append(cycle)
        self.last = record
        return record

    def write_snapshot(self, record: CommitRecord) -> None:
        self._write_file(snapshot_name(record.cycle), record)
        self._journals[record.cycle] = record.end.journal
        if record.cycle not in self._snapshots:
            insort(self._snapshots, record.cycle)

    def prune(self, horizon: int) -> None:
        """Forget records up to a cycle that a snapshot covers, and snapshots that no start can need."""
        covering = [s for s in self._snapshots if s <= horizon]
        if not covering:
            return
        for cycle in [c for c in self._cycles if c <= covering[-1]]:
            (self._folder.commits / record_name(cycle)).unlink(missing_ok=True)
            self._cycles.remove(cycle)
            self._follows.pop(cycle, None)
        for snapshot in covering[:-1]:
            (self._folder.commits / snapshot_name(snapshot)).unlink(missing_ok=True)
            self._snapshots.remove(snapshot)
            self._journals.pop(snapshot, None)

    def _write_file(self, name: str, record: CommitRecord) -> None:
        if not self._upgraded:
            upgrade_format(self._folder.root)
            self._upgraded = True
        step = "snapshot" if name.startswith("snapshot") else "commit"
        store(self._folder.tmp, self._folder.commits / name, record_writer(record), self.crash_point, step)


def read_newest_end(folder: DataFolder) -> Offset | None:
    """The end of the last committed cycle, from which work continues."""
    cycles, snapshots = list_numbers(folder.commits)
    if not cycles and not snapshots:
        return None
    newest = max([*cycles[-1:], *snapshots[-1:]])
    name = record_name(newest) if newest in cycles else snapshot_name(newest)
    return read_record(folder.commits / name).end
