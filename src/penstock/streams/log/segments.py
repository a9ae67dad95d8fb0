"""Which files of the log hold which rows, from their names alone, in any process and without the writer.

Comes in: the log's folder. Goes out: segments (from a listing) and slices (exact file ranges, which a plan hands
to its tasks and `segment_rows` reads). Called by the pipeline's planner and workers, by compaction and by `Ingest`
at start. Nothing here locks: segments are immutable.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import PenstockError, error
from penstock.streams.log.layout import Format, Segment, parse_segment

__all__ = [
    "Segment",
    "Slice",
    "contiguous",
    "cover",
    "cover_around_gaps",
    "list_files",
    "list_readable",
    "list_segments",
    "list_what_is_there",
    "slices",
]

_LIST_TRIES = 4


@dataclass(frozen=True, slots=True)
class Slice:
    """`rows` rows of one file from its row `skip` on. `first` is the log position of the first of them."""

    path: Path
    format: Format
    first: int
    skip: int
    rows: int

    @property
    def end(self) -> int:
        return self.first + self.rows


def list_files(folder: Path) -> list[Segment]:
    """All segment files in a table's folder, replaced ones too, in no order. Empty where there is no folder."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [segment for name in names if (segment := parse_segment(folder / name)) is not None]


def cover(files: Sequence[Segment]) -> tuple[list[Segment], int | None]:
    """The files that hold every position exactly once, oldest first, up to the first gap, and where that is.

    Compaction joins whole neighbours, so two files either nest or do not touch, and taking the longest at each
    start is exact. Parquet wins over Arrow for the same range.
    """
    chosen: list[Segment] = []
    position: int | None = None
    for segment in sorted(files, key=lambda s: (s.first, -s.end, s.format != "parquet")):
        if position is not None and segment.end <= position:
            continue
        if position is not None and segment.first != position:
            return chosen, position
        chosen.append(segment)
        position = segment.end
    return chosen, None


def cover_around_gaps(files: Sequence[Segment]) -> list[Segment]:
    """`cover`, going on after each gap."""
    found: list[Segment] = []
    while files:
        chosen, gap = cover(files)
        found.extend(chosen)
        files = [] if gap is None else [segment for segment in files if segment.first > gap]
    return found


def contiguous(segments: Sequence[Segment]) -> list[list[Segment]]:
    """A cover cut at its gaps."""
    pieces: list[list[Segment]] = []
    for segment in segments:
        if pieces and pieces[-1][-1].end == segment.first:
            pieces[-1].append(segment)
        else:
            pieces.append([segment])
    return pieces


def list_what_is_there(log_folder: Path, table_id: int) -> list[Segment]:
    """Like `list_segments`, but going on after a gap: for readers that can do without the rows that are lost."""
    return cover_around_gaps(list_files(log_folder / str(table_id)))


def list_segments(log_folder: Path, table_id: int) -> list[Segment]:
    """An exact, non-overlapping cover of a table's rows, oldest first, preferring compacted files.

    A listing is not atomic: it can show a new segment and miss the one before. A gap is therefore looked at
    again, and is an error only when it stays.
    """
    folder = log_folder / str(table_id)
    for attempt in range(_LIST_TRIES):
        chosen, gap = cover(list_files(folder))
        if gap is None:
            return chosen
        time.sleep(0.001 * 4**attempt)
    raise error("corrupt_segment", segment=f"{folder.name}/{gap:016d}-...", detail="the file is missing")


def list_readable(log_folder: Path, table_id: int) -> list[Segment]:
    """`list_segments`, but a file that is missing for good leaves its rows out instead of stopping all tables.

    For the pipeline: a reader that then misses rows reports it for the one table.
    """
    try:
        return list_segments(log_folder, table_id)
    except PenstockError:
        return list_what_is_there(log_folder, table_id)


def slices(
    segments: Sequence[Segment], start: int, end: int, min_ts: int | None = None, max_ts: int | None = None
) -> list[Slice]:
    """The file ranges that hold positions [start, end), leaving out files wholly outside [min_ts, max_ts]."""
    found: list[Slice] = []
    for segment in segments:
        if segment.end <= start or segment.first >= end:
            continue
        if (min_ts is not None and segment.max_ts < min_ts) or (max_ts is not None and segment.min_ts > max_ts):
            continue
        first, stop = max(start, segment.first), min(end, segment.end)
        found.append(Slice(segment.path, segment.format, first, first - segment.first, stop - first))
    return found
