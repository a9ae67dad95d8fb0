"""The files of commit records: their names, how one is written, and how one is read and checked.

A record is an Arrow file: the rows that the cycle's tasks yielded (RESULT_SCHEMA) and, as metadata, the cycle's
number and offsets. A seal covers both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.cycle.offset import Offset, offset_from_json
from penstock.errors import check_known, error
from penstock.streams.log.checksums import read_sealed, sealed_file

RESULT_SCHEMA = pa.schema(
    [
        ("query", pa.int64()),
        ("kind", pa.string()),
        ("rows", pa.int64()),
        ("position", pa.int64()),
        ("payload", pa.binary()),
    ]
)
ResultRow = tuple[int, str, int, int, bytes | None]


def result_batch(rows: list[ResultRow]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in RESULT_SCHEMA)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, RESULT_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RESULT_SCHEMA)


def to_payload(table: pa.Table) -> bytes:
    """A table as the payload of a row."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_payload(payload: bytes) -> pa.Table:
    return pa.ipc.open_stream(payload).read_all()


_NAME = re.compile(r"(snapshot-)?(\d{12})\.arrow(\.\d+)?")  # with a number behind it where it was moved aside
# What reading a damaged file can end in: its names and lengths are read before any checksum.
_UNREADABLE = (OSError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One committed cycle: number, offsets, and what its tasks yielded."""

    cycle: int
    start: Offset
    end: Offset
    results: pa.Table
    info: dict[str, Any]

    @property
    def follows(self) -> int:
        """The cycle before it; 0 for none. A record after retired ones names it (`recover_commits`)."""
        return int(self.info.get("resumes", self.cycle - 1))

    @property
    def resumes(self) -> bool:
        """Whether it stands for retired cycles and brings no rows."""
        return "resumes" in self.info

    def payloads(self, *kinds: str) -> list[tuple[str, bytes]]:
        """Of its rows of some kinds, with the kind, in their order."""
        chosen = self.results.filter(pc.is_in(self.results.column("kind"), pa.array(kinds)))
        columns = (chosen.column(name).to_pylist() for name in ("kind", "payload"))
        return list(zip(*columns, strict=True))


def record_name(cycle: int) -> str:
    return f"{cycle:012d}.arrow"


def snapshot_name(cycle: int) -> str:
    return f"snapshot-{cycle:012d}.arrow"


def list_numbers(folder: Path) -> tuple[list[int], list[int]]:
    """The numbers of the records and of the snapshots in a folder, ascending."""
    found: tuple[list[int], list[int]] = [], []
    for name in os.listdir(folder) if folder.is_dir() else ():
        match = _NAME.fullmatch(name)
        if match is not None:
            found[1 if match[1] else 0].append(int(match[2]))
    return sorted(found[0]), sorted(found[1])


def record_writer(record: CommitRecord) -> Callable[[Path], None]:
    """What writes a record to a file, for `atomic_file.store`."""
    header = {
        "cycle": record.cycle,
        "start": record.start.to_json(),
        "end": record.end.to_json(),
        "info": record.info,
    }
    table = record.results.cast(RESULT_SCHEMA).replace_schema_metadata({"penstock": orjson.dumps(header)})
    return sealed_file(table.schema, table.combine_chunks().to_batches())


_HEADER = {"cycle", "start", "end", "info"}


def read_record(path: Path) -> CommitRecord:
    """A record or a snapshot. Raises corrupt_segment where it is not what was written under this name.

    Members of `info` that this version does not know are measurements of the cycle: what answers depend on goes elsewhere.
    """
    try:
        with pa.OSFile(str(path), "rb") as source:
            table = read_sealed(path, source)
        header = orjson.loads(table.schema.metadata[b"penstock"])
        check_known(header, _HEADER, path.name)
        check_known(dict.fromkeys(table.schema.names), set(RESULT_SCHEMA.names), path.name)
        found = CommitRecord(
            cycle=header["cycle"],
            start=offset_from_json(header["start"]),
            end=offset_from_json(header["end"]),
            results=table.replace_schema_metadata(None).cast(RESULT_SCHEMA),
            info=header["info"],
        )
        match = _NAME.fullmatch(path.name)
        if match is not None and int(match[2]) != found.cycle:
            raise ValueError(f"it is the record of cycle {found.cycle}")
    except _UNREADABLE as failure:
        raise error(
            "corrupt_segment",
            segment=path.name,
            detail="the file is missing" if isinstance(failure, FileNotFoundError) else str(failure),
            hint="the disk may be failing; the next start goes on without it",
        ) from failure
    return found
