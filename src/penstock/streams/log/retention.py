"""Retention: how far a table's rows are older than it keeps, and removing the files that hold only such rows.

Age is measured at the table's own NOW: the newest time of a valid-time table (so that a replay of an old file is
not thrown away as it is loaded), the clock of a transaction-time table. Neither is ahead of the clock's NOW for retention, which
lags where much time is said to have passed that was not seen to. Whole files only: a row may outlive its time by the
span of its file, and the newest file always stays. The new floor is journalled by the caller before anything is removed, and never
passes what a cycle or a fill still needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.catalog.model import Table
from penstock.clock import Clock
from penstock.clock_guard import retention_now_us
from penstock.streams.log.segments import Segment, list_what_is_there
from penstock.streams.log.stream_log import StreamLog

Protect = Callable[[int], int]


def retention_position(table: Table, log: StreamLog, clock: Clock, protect: Protect) -> int | None:
    """The log position below which all rows are older than the table keeps; None if that moves nothing.

    `protect` gives the position of a table from which on rows are still needed.
    """
    keep_us = table.options.retention_us
    if keep_us is None:
        return None
    # A file that is missing must not keep the others for ever.
    segments = list_what_is_there(log.folder, table.id)
    if not segments:
        return None
    now = own_now(table, segments, clock)
    position = segments[0].first
    needed = protect(table.id)
    for segment in segments[:-1]:
        if segment.max_ts >= now - keep_us or segment.end > needed:
            break
        position = segment.end
    return position if position > segments[0].first else None


def own_now(table: Table, segments: Sequence[Segment], clock: Clock) -> int:
    """A table's own NOW. The file with the newest time always stays, so it never steps back."""
    now = retention_now_us(clock)
    if table.options.time == "transaction":
        return now
    return min(max(s.max_ts for s in segments), now + table.options.max_ahead_us)
