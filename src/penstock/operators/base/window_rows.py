"""About how many rows of a table a full window has, from the names of its files: for estimates before a query runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.expr.windows import RowsWindow, Window
from penstock.streams.log.segments import Segment, rows_within

SegmentsOf = Callable[[int], Sequence[Segment]]


def full_window_rows(window: Window, segments: Sequence[Segment]) -> int | None:
    """None where it cannot be told: the window has no fixed length, or the log has no time yet."""
    if isinstance(window, RowsWindow):
        return None if window.per_sensor else window.count
    if not window.slides or window.end.anchor != "now" or not segments:
        return None
    length_us = window.end.offset_us - window.begin.offset_us
    known_us = max(s.max_ts for s in segments) - min(s.min_ts for s in segments)
    if known_us <= 0 or length_us <= 0:
        return None
    return int(rows_within(segments, length_us) * length_us / min(length_us, known_us))
