"""What is missing of a log: rows that file names lead up to, that retention has not taken, and that no file holds.

A listing alone cannot tell that the oldest or the newest files are gone. Readers know where a table begins (its
floor, which the journal holds) and how far it was committed, and ask here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.catalog.state import load_state
from penstock.errors import PenstockError, error
from penstock.streams.log.layout import Segment
from penstock.streams.log.segments import list_segments


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
    return first_missing(segments, max(first, _journalled_floor(log_folder.parent, table_id)), end)


def missing_file(table_id: int, position: int) -> PenstockError:
    return error(
        "corrupt_segment",
        segment=f"{table_id}/{position:016d}-...",
        detail="the file is missing",
        hint="put it back from a backup",
    )


def _journalled_floor(data_folder: Path, table_id: int) -> int:
    return load_state(data_folder).retention(table_id)
