"""Open the folder of commit records after a crash or damage: find which records are valid and where work resumes.

A record is valid if it is complete and all records before it are, back to a snapshot or to the first cycle. A damaged record
that a snapshot covers is not needed. Otherwise its number and all later ones are retired: they are moved to `corrupt/`, and a
record under the next free number names the cycle after which work resumes. Readers of retired cycles get `cycle_gone`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from penstock.catalog.folder_format import is_id_whole, read_format, read_id, write_format
from penstock.catalog.journal import JournalReader
from penstock.cycle.commit_files import (
    RESULT_SCHEMA,
    CommitRecord,
    list_numbers,
    read_record,
    record_name,
    record_writer,
    snapshot_name,
)
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import Offset
from penstock.damage import FOLDER, DamageReport, damage_of
from penstock.errors import PenstockError
from penstock.streams.log.atomic_file import store


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
