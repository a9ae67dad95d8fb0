"""Commit records: one file per cycle, keyed by its (start, end) offset. The first write wins.

A record is an Arrow file: the rows that the cycle's tasks yielded (RESULT_SCHEMA) and, as metadata, the cycle's
number and offsets. A snapshot folds all records up to a cycle, so that the folder stays small.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from penstock.errors import error
from penstock.pipeline.folder import DataFolder
from penstock.pipeline.offset import Offset, offset_from_json
from penstock.streams.sealing import check_seal, sealed_file
from penstock.streams.storing import CrashPoint, no_crash, store

RESULT_SCHEMA = pa.schema(
    [
        ("query", pa.int64()),
        ("kind", pa.string()),
        ("rows", pa.int64()),
        ("position", pa.int64()),
        ("payload", pa.binary()),
    ]
)
_RECORD = re.compile(r"^(\d{12})\.arrow$")
_SNAPSHOT = re.compile(r"^snapshot-(\d{12})\.arrow$")


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One committed cycle: number, offsets, and what its tasks yielded."""

    cycle: int
    start: Offset
    end: Offset
    results: pa.Table
    info: dict[str, Any]


class CommitStore:
    """The folder of records. One writer (the server), any number of readers."""

    # Tests end the process here, before and after each step.
    crash_point: CrashPoint = staticmethod(no_crash)

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self._cycles = sorted(int(m.group(1)) for n in os.listdir(folder.commits) if (m := _RECORD.match(n)))
        self._snapshots = sorted(int(m.group(1)) for n in os.listdir(folder.commits) if (m := _SNAPSHOT.match(n)))
        newest = max([*self._cycles[-1:], *self._snapshots[-1:]], default=0)
        self.last = self._read_last(newest) if newest else None

    def _read_last(self, cycle: int) -> CommitRecord:
        return self.read(cycle) if cycle in self._cycles else self.read_snapshot(cycle)

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

    def cycles(self) -> list[int]:
        return list(self._cycles)

    def read(self, cycle: int) -> CommitRecord:
        if cycle not in self._cycles:
            raise error("cycle_gone", cycle=cycle, oldest=self.oldest_cycle)
        return _read_record(self._folder.commits / f"{cycle:012d}.arrow")

    def read_snapshot(self, cycle: int) -> CommitRecord:
        return _read_record(self._folder.commits / f"snapshot-{cycle:012d}.arrow")

    def foundation(self) -> tuple[CommitRecord | None, list[int]]:
        """The oldest snapshot from which on every record is there (None: from the first cycle on), and those records.

        A crash while old records were removed leaves some of them behind: without what came before they are nothing.
        """
        last = self.last.cycle if self.last else 0
        known = set(self._cycles)
        gap = next((c for c in range(last, 0, -1) if c not in known), 0)
        if gap == 0:
            return None, list(self._cycles)
        base = next((s for s in self._snapshots if s >= gap), None)
        if base is None:
            raise error("corrupt_segment", segment=f"{gap:012d}.arrow", detail="the commit record is missing")
        return self.read_snapshot(base), [c for c in self._cycles if c > base]

    def write(self, start: Offset, end: Offset, results: pa.Table, info: dict[str, Any]) -> CommitRecord | None:
        """Commit a cycle. None where this (start, end) has been committed before."""
        if self.last is not None:
            if self.last.end == end and (self.last.start == start or self.last.start.journal < 0):
                return None
            if self.last.end != start:
                known = f"cycle {self.last.cycle} ended at {self.last.end.to_json()}"
                # The streaming query ends by this, and the next one begins at the last record.
                raise error("stale_cycle", detail=f"a cycle starts at {start.to_json()}, but {known}")
        cycle = self.last.cycle + 1 if self.last else 1
        record = CommitRecord(cycle, start, end, results, info)
        self._write_file(f"{cycle:012d}.arrow", record)
        self._cycles.append(cycle)
        self.last = record
        return record

    def write_snapshot(self, record: CommitRecord) -> None:
        self._write_file(f"snapshot-{record.cycle:012d}.arrow", record)
        self._snapshots.append(record.cycle)

    def prune(self, keep: int) -> None:
        """Forget records older than `keep` cycles that a snapshot covers, and snapshots nobody can need."""
        horizon = (self.last.cycle if self.last else 0) - keep
        covering = [s for s in self._snapshots if s <= horizon]
        if not covering:
            return
        for cycle in [c for c in self._cycles if c <= covering[-1]]:
            (self._folder.commits / f"{cycle:012d}.arrow").unlink(missing_ok=True)
            self._cycles.remove(cycle)
        for snapshot in covering[:-1]:
            (self._folder.commits / f"snapshot-{snapshot:012d}.arrow").unlink(missing_ok=True)
            self._snapshots.remove(snapshot)

    def _write_file(self, name: str, record: CommitRecord) -> None:
        header = {
            "cycle": record.cycle,
            "start": record.start.to_json(),
            "end": record.end.to_json(),
            "info": record.info,
        }
        table = record.results.cast(RESULT_SCHEMA).replace_schema_metadata({"penstock": orjson.dumps(header)})
        write = sealed_file(table.schema, table.combine_chunks().to_batches())
        step = "snapshot" if name.startswith("snapshot") else "commit"
        store(self._folder.tmp, self._folder.commits / name, write, self.crash_point, step)


def _read_record(path: Path) -> CommitRecord:
    try:
        with pa.OSFile(str(path), "rb") as source:
            reader = pa.ipc.open_file(source)
            check_seal(path, source, reader.schema)
            table = reader.read_all()
        header = orjson.loads(table.schema.metadata[b"penstock"])
    except (OSError, pa.ArrowInvalid, KeyError, TypeError) as failure:
        raise error("corrupt_segment", segment=path.name, detail=str(failure)) from failure
    return CommitRecord(
        cycle=header["cycle"],
        start=offset_from_json(header["start"]),
        end=offset_from_json(header["end"]),
        results=table.replace_schema_metadata(None),
        info=header["info"],
    )


def read_newest_end(folder: DataFolder) -> Offset | None:
    """Where the last committed cycle ended: where work goes on."""
    names = [n for n in os.listdir(folder.commits) if _RECORD.match(n) or _SNAPSHOT.match(n)]
    if not names:
        return None
    newest = max(names, key=lambda n: int(re.sub(r"\D", "", n)))
    return _read_record(folder.commits / newest).end
