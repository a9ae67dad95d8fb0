"""Commit records: one file per cycle, keyed by its (start, end) offset. The first write wins.

A snapshot folds all records up to a cycle, so that the folder stays small.

After a crash or damage, `recover_commits` finds which records are valid and where work resumes. A record is valid
if it is complete and all records before it are, back to a snapshot or to the first cycle. A damaged record that a snapshot covers is not needed. Otherwise its number and all later ones are retired: they are moved to `corrupt/`, and a
record under the next free number names the cycle after which work resumes. Readers of retired cycles get `cycle_gone`.
"""

from __future__ import annotations

import uuid
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.catalog.folder_format import is_id_whole, read_format, read_id, upgrade_format, write_format
from penstock.catalog.journal import JournalReader
from penstock.cycle.commit_files import (
    RESULT_SCHEMA,
    CommitRecord,
    list_numbers,
    read_record,
    record_name,
    record_writer,
    result_batch,
    snapshot_name,
)
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import Offset
from penstock.cycle.record_queue import RecordQueue
from penstock.damage import FOLDER, DamageReport, damage_of
from penstock.errors import PenstockError, error, is_too_new
from penstock.streams.log.atomic_file import CrashPoint, no_crash, store


@dataclass(slots=True)
class RecoveredCommits:
    """What the folder holds: numbers of good records and snapshots, and the newest of them."""

    cycles: list[int] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)
    follows: dict[int, int] = field(default_factory=dict)  # only of records that resume
    last: CommitRecord | None = None
    journals: dict[int, int] = field(default_factory=dict)  # of good snapshots: the journal position of each
    journal: int = 0  # the highest journal position that any record names, also a retired one
    now_us: int = 0  # likewise: NOW never steps back


def recover_commits(folder: DataFolder) -> RecoveredCommits:
    """Check every record, move aside what does not hold, and make work resume after the last good one.

    A record needs the definitions as of the journal entry that it names: without them it does not hold. Rows that were
    logged among lost entries need those, too: work resumes after these rows, and queries read them as history.
    """
    reader = JournalReader(folder.root)
    try:
        positions = reader.positions()
    except PenstockError:
        return _Recovery(folder, None, 0, {}).run()  # the catalog reports it when it is opened
    after_gap = next((i for i, (a, b) in reversed([*enumerate(pairwise([0, *positions]))]) if b != a + 1), None)
    if after_gap is None:
        return _Recovery(folder, {0, *positions}, 0, {}).run()
    return _Recovery(folder, {0, *positions}, positions[after_gap], reader.waiting()[after_gap].heads).run()


@dataclass(frozen=True, slots=True)
class _Header:
    start: Offset
    end: Offset
    follows: int
    resumes: bool


class _Recovery:
    def __init__(self, folder: DataFolder, entries: set[int] | None, snapshot: int, heads: dict[int, int]) -> None:
        self._folder = folder
        self._entries = entries  # journal positions whose definitions can be had; None: not known
        self._snapshot = snapshot  # the entry of the catalog snapshot that stands for lost lines; 0: none is lost
        self._heads = heads  # the log heads at that entry
        self._report: DamageReport = damage_of(folder.root)
        self._bad: dict[Path, str] = {}
        self._found = RecoveredCommits()

    def run(self) -> RecoveredCommits:
        cycles, snapshots = list_numbers(self._folder.commits)
        records = self._read_all(cycles, record_name)
        bases = self._read_all(snapshots, snapshot_name)
        founded = _founded(records, bases)
        newest = max([*founded, *bases], default=0)
        if newest:
            self._mend_id((bases.get(newest) or records[newest]).end.folder)
        elif (cycles or snapshots) and not is_id_whole(self._folder.root):
            self._mend_id(uuid.uuid4().hex)  # no file names it
        # Numbers that were moved aside are used, too.
        aside = list_numbers(self._folder.root / FOLDER / self._folder.commits.name)
        used = max([*cycles, *snapshots, *aside[0], *aside[1]], default=0)
        self._found.cycles = [cycle for cycle in records if cycle <= newest]
        self._found.snapshots = [cycle for cycle in bases if cycle <= newest]
        self._found.follows = {cycle: h.follows for cycle, h in records.items() if h.resumes and cycle <= newest}
        if used > newest:
            end = (bases.get(newest) or records[newest]).end if newest else Offset(self._folder.read_id(), self._heads)
            self._retire([cycle for cycle in records if cycle > newest], newest, used)
            self._resume(newest, used + 1, end)
        else:
            self._set_aside("a snapshot covers it")
            if newest:
                name = record_name(newest) if newest in records else snapshot_name(newest)
                self._found.last = read_record(self._folder.commits / name)
        return self._found

    def _mend_id(self, known: str) -> None:
        """Records name the folder, too: the file that does is written again where it is damaged."""
        root = self._folder.root
        if not is_id_whole(root) or read_id(root) != known or read_format(root) is None:
            write_format(root, known)
            self._report.note(root / "folder_id", "folder_id", "it was written again", healed=True)

    def _read_all(self, numbers: list[int], name_of: Callable[[int], str]) -> dict[int, _Header]:
        good = {}
        for number in numbers:
            path = self._folder.commits / name_of(number)
            try:
                record = read_record(path)
            except PenstockError as problem:
                if is_too_new(problem):
                    raise
                self._bad[path] = problem.message
                continue
            self._found.journal = max(self._found.journal, record.end.journal)
            self._found.now_us = max(self._found.now_us, record.end.now_us)
            lost = self._lost_for(record.end)
            if lost is not None:
                self._bad[path] = f"it names journal entry {record.end.journal}, but the journal {lost}"
                continue
            good[number] = _Header(record.start, record.end, record.follows, record.resumes)
            if record.info.get("snapshot") is not None:
                self._found.journals[number] = record.end.journal
        return good

    def _lost_for(self, end: Offset) -> str | None:
        """What the journal lacks for work to go on from an offset; None where it lacks nothing."""
        if self._entries is not None and end.journal not in self._entries:
            last = max(self._entries)
            return f"ends with entry {last}" if end.journal > last else "has lost it"
        behind = any(end.data.get(table, 0) < head for table, head in self._heads.items())
        if end.journal < self._snapshot and behind:
            return f"has lost entries before entry {self._snapshot}, which the rows after the record need"
        return None

    def _retire(self, good: list[int], newest: int, used: int) -> None:
        for cycle in good:
            self._bad[self._folder.commits / record_name(cycle)] = "what came before it is lost"
        numbers = f"cycle {newest + 1} is" if used == newest + 1 else f"cycles {newest + 1} to {used} are"
        after = f"after cycle {newest}" if newest else "from the beginning"
        told = f"{numbers} retired, and work resumes {after}"
        missing = self._folder.commits / record_name(newest + 1)
        if missing not in self._bad:
            self._report.note(missing, "commit_record", f"the file is missing; {told}", healed=True)
        self._set_aside(told)

    def _set_aside(self, why: str) -> None:
        for path, detail in self._bad.items():
            kind = "snapshot" if path.name.startswith("snapshot") else "commit_record"
            self._report.set_aside(path, kind, f"{detail}; {why}", healed=True)

    def _resume(self, newest: int, number: int, end: Offset) -> None:
        """Write the record that stands for the retired ones."""
        later = replace(end, now_us=max(end.now_us, self._found.now_us))
        record = CommitRecord(number, end, later, RESULT_SCHEMA.empty_table(), {"resumes": newest})
        store(self._folder.tmp, self._folder.commits / record_name(number), record_writer(record), at="commit")
        self._found.cycles.append(number)
        self._found.follows[number] = newest
        self._found.last = record


def _founded(records: dict[int, _Header], bases: dict[int, _Header]) -> set[int]:
    """The records that hold: each begins where a record or a snapshot that holds has ended, or is the first."""
    founded: set[int] = set()
    for cycle, header in records.items():
        before = header.follows
        if before == 0:
            founded.add(cycle)
        elif before in bases:
            if bases[before].end == header.start:
                founded.add(cycle)
        elif before in founded and records[before].end == header.start:
            founded.add(cycle)
    return founded


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
            results = pa.concat_tables([results.cast(RESULT_SCHEMA), pa.Table.from_batches([result_batch(waiting)])])
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
