"""What ingest must know of the log to go on: each sensor's newest time, the table's, and which rows have live keys.

All of it follows from the log. A sidecar holds it as of some position, so that a start reads only the rows after
that. Without a sidecar, or with one that does not fit, the whole log is read: two columns of it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, VERSION_COLUMN
from penstock.errors import PenstockError
from penstock.streams.ingest.rules import NO_TIME, raise_newest
from penstock.streams.log.atomic_file import make_folder, store
from penstock.streams.log.checksums import read_sealed, sealed_file
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, slices

Ints = np.ndarray[Any, np.dtype[np.int64]]
Versions = np.ndarray[Any, np.dtype[np.int32]]

logger = logging.getLogger(__name__)

_COLUMNS = [VERSION_COLUMN.name, TIME_COLUMN]
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Memory:
    """As of log position `position`: newest time by sid, the table's newest, and the rows with live keys.

    `live` are the log positions of rows within the deduplication time of their sensor's newest, `live_sids` and
    `live_times` theirs; empty for a table that does not deduplicate.
    """

    position: int
    latest: int
    newest: Ints
    live: Ints
    live_sids: Ints
    live_times: Ints


EMPTY = Memory(0, NO_TIME, _NONE, _NONE, _NONE, _NONE)


def advance(memory: Memory, segments: list[Segment], head: int, sid_of: Versions, within_us: int | None) -> Memory:
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


def read_live(segments: list[Segment], positions: Ints, columns: list[str]) -> pa.Table:
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
    columns = {
        "newest": memory.newest,
        "live": memory.live,
        "live_sids": memory.live_sids,
        "live_times": memory.live_times,
    }
    arrays = {name: pa.array([values], pa.list_(pa.int64())) for name, values in columns.items()}
    table = pa.table(
        {"position": pa.array([memory.position]), "latest": pa.array([memory.latest]), **arrays},
    )

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
            for name in ("newest", "live", "live_sids", "live_times")
        ]
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, IndexError, OverflowError) as problem:
        logger.warning("%s is read anew from the log: %s", path, problem)
        return EMPTY
    return Memory(position, latest, *lists) if position <= head else EMPTY
