"""Which files of the log hold which rows, from their names alone, in any process and without the writer.

Comes in: the log's folder. Goes out: segments (from a listing) and slices (exact file ranges, which a plan hands
to its tasks and `segment_rows` reads). Called by the pipeline's planner and workers, by compaction and by `Ingest`
at start. Nothing here locks: segments are immutable.

A segment's name says what it holds, so a listing is an index:

    DATA/log/<table id>/<first>-<end>-<min ts>-<max ts>.arrow|parquet

`first` and `end` (exclusive) are log positions with 16 digits, so names sort by position and the head of a
table is the largest text in columns 17 to 32. Times are microseconds; one before 1970 is written with `m`
for minus, because `-` separates the parts.

A listing alone cannot tell that the oldest or the newest files are gone. Readers know where a table begins (its
floor, which the journal holds) and how far it was committed, and ask `first_missing`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from penstock.back_off import BackOff
from penstock.catalog.state import load_state
from penstock.errors import PenstockError, error

Format = Literal["arrow", "parquet"]

LOG = "log"
TEMPORARY = "tmp"
SIDECARS = "streams"  # newest times and idempotency keys, one folder a table; the log is the truth
ASIDE = "log-"  # prefix of this package's half-written files under DATA/tmp

_NAME = re.compile(r"(\d{16})-(\d{16})-(m?\d+)-(m?\d+)\.(arrow|parquet)")


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of rows [first, end) of one table, in one immutable file, with times in [min_ts, max_ts]."""

    path: Path
    first: int
    end: int
    min_ts: int
    max_ts: int
    format: Format

    @property
    def rows(self) -> int:
        return self.end - self.first


def segment_name(first: int, end: int, min_ts: int, max_ts: int, format: Format) -> str:
    return f"{first:016d}-{end:016d}-{_spell(min_ts)}-{_spell(max_ts)}.{format}"


def parse_segment(path: Path) -> Segment | None:
    """The segment that a file's name describes; None where it is no segment."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    first, end, low, high, format = match.groups()
    return Segment(path, int(first), int(end), _read(low), _read(high), "arrow" if format == "arrow" else "parquet")


def _spell(ts: int) -> str:
    return str(ts) if ts >= 0 else f"m{-ts}"


def _read(text: str) -> int:
    return -int(text[1:]) if text[0] == "m" else int(text)


_LIST_TRIES = 7
_LIST_AGAIN = BackOff(0.001, 0.064)


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
    for tries in range(1, _LIST_TRIES + 1):
        chosen, gap = cover(list_files(folder))
        if gap is None:
            return chosen
        time.sleep(_LIST_AGAIN.pause_s(tries))
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


def first_missing(segments: Sequence[Segment], first: int, end: int) -> int | None:
    """The first position in [first, end) that no segment of a cover holds; None where all are there."""
    position = first
    for segment in segments:
        if position >= end or segment.first > position:
            break
        position = max(position, segment.end)
    return position if position < end else None


def first_reached(segments: Sequence[Segment], low_us: int, floor: int) -> int:
    """From which position on rows may be of a time or later, as far as file names tell.

    What is missing right before such a file may be of that time, too, and so may what is missing after the last.
    """
    known = floor
    for segment in segments:
        if segment.max_ts >= low_us:
            return max(floor, min(known, segment.first))
        known = segment.end
    return max(floor, known)


def rows_within(segments: Sequence[Segment], reach_us: int) -> int:
    """About how many rows lie in the newest stretch of the table's time that is so long."""
    newest = max((s.max_ts for s in segments), default=0)
    rows = 0.0
    for segment in segments:
        span = max(1, segment.max_ts - segment.min_ts)
        inside = min(span, segment.max_ts - (newest - reach_us))
        rows += max(0.0, inside / span) * (segment.end - segment.first)
    return int(rows)


def list_whole(log_folder: Path, table_id: int, first: int, end: int) -> list[Segment]:
    """`list_segments`, where every position in [first, end) has to be there. Raises corrupt_segment otherwise."""
    segments = list_segments(log_folder, table_id)
    lost = lost_position(log_folder, table_id, segments, first, end)
    if lost is not None:
        raise missing_file(table_id, lost)
    return segments


def lost_position(log_folder: Path, table_id: int, segments: Sequence[Segment], first: int, end: int) -> int | None:
    """Like `first_missing`, but sure of it: retention may have moved on since the caller looked.

    Its floor is journalled before a file goes, so the journal as it is now explains every listing from before.
    """
    if first_missing(segments, first, end) is None:
        return None
    return first_missing(segments, max(first, load_state(log_folder.parent).retention(table_id)), end)


def missing_file(table_id: int, position: int) -> PenstockError:
    return error(
        "corrupt_segment",
        segment=f"{table_id}/{position:016d}-...",
        detail="the file is missing",
        hint="put it back from a backup",
    )


@dataclass(slots=True)
class Listing:
    """Exact files for ranges of positions."""

    log: Path
    _known: dict[int, list[Segment]] = field(default_factory=dict)

    def files(self, table_id: int, first: int, end: int) -> tuple[Slice, ...]:
        if first >= end:
            return ()
        if table_id not in self._known:
            self._known[table_id] = list_readable(self.log, table_id)
        return tuple(slices(self._known[table_id], first, end))
