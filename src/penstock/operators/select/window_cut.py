"""Cut a query's matches to its window at one committed cycle."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.catalog.rows import StaticRows
from penstock.errors import expect
from penstock.expr.windows import FOREVER, RowsWindow, TimeWindow, Window
from penstock.operators.base.blocks import Blocks
from penstock.operators.base.log_reader import LogReader, TimedPositions, no_rows, offsets_in
from penstock.operators.select.hold import HoldPositions
from penstock.operators.select.match_positions import MatchPositions
from penstock.views.query_state import NEVER


@dataclass(frozen=True, slots=True)
class WindowMatches:
    """A query's bitmaps, safe to read while the next cycle is folded in.

    A window of rows counts those that `base` names, if it is there; else those of the static versions that are
    `passing`, None: all.
    """

    matches: Blocks | MatchPositions | HoldPositions
    base: Blocks | None = None
    passing: np.ndarray | None = None
    heard: np.ndarray | None = None  # sensors with a reading that counts: until all are found, more rows are read

    def times(self, log_reader: LogReader, end: int, low: int, high: int, first: int) -> TimedPositions:
        """Matches in [first, end) with ts in [low, high]."""
        if isinstance(self.matches, MatchPositions | HoldPositions):
            return self.matches.times(log_reader, end, low, high, first)
        return log_reader.times(self.matches, end, low, high, first)

    def among(self, rows: TimedPositions, log_reader: LogReader, end: int) -> TimedPositions:
        """Which of some rows match, as of a head."""
        if isinstance(self.matches, HoldPositions):
            low = int(rows.times.min(initial=FOREVER))
            found = self.matches.times(log_reader, end, low, FOREVER, 0).positions
        elif isinstance(self.matches, MatchPositions):
            found = self.matches.between(0, end)
        else:
            found = offsets_in(self.matches, 0, end, 0)
        return rows.take(np.flatnonzero(np.isin(rows.positions, found, assume_unique=True)))


@dataclass(frozen=True, slots=True)
class WindowAt:
    """What the rows of a window depend on: begin and end of the table's log, NOW, START, and the window itself."""

    floor: int
    head: int
    now_us: int | None
    start_us: int | None
    window: Window

    def range(self) -> tuple[int, int] | None:
        """[low, high] of a time window; None where no NOW is known yet, and for a window of rows."""
        if self.now_us is None or not isinstance(self.window, TimeWindow):
            return None
        return self.range_at(self.now_us)

    def range_at(self, now_us: int) -> tuple[int, int]:
        assert isinstance(self.window, TimeWindow)
        return self.window.resolve(now_us, self.start_us if self.start_us is not None else NEVER)

    def range_before(self) -> tuple[int, int]:
        """The same for comparison with a later instant: before the first reading NOW could have been any moment."""
        return self.range_at(self.now_us if self.now_us is not None else NEVER)


def rows_inside(matches: WindowMatches, at: WindowAt, log_reader: LogReader) -> TimedPositions:
    """All matches inside the window, in log order."""
    if isinstance(at.window, RowsWindow):
        return matches.among(newest_counted(log_reader, matches, at), log_reader, at.head)
    span = at.range()
    if span is None:
        return no_rows()
    return matches.times(log_reader, at.head, *span, first=at.floor)


def rows_entered(matches: WindowMatches, before: WindowAt, after: WindowAt, log_reader: LogReader) -> TimedPositions:
    """Rows that came into a window since `before`, those included that left again within the cycle."""
    if before.window == after.window and isinstance(after.window, TimeWindow):
        return _entered_in_time(matches, before, after, log_reader)
    was = rows_inside(matches, replace(before, floor=after.floor), log_reader)
    now = rows_inside(matches, after, log_reader)
    inside = _without(now, was)
    # Until the new window took over, the old one stood.
    until = replace(after, window=before.window)
    if isinstance(before.window, TimeWindow):
        passed = _entered_in_time(matches, before, until, log_reader)
    else:
        counted = counted_rows(matches, until, log_reader)
        passed = matches.among(counted.take(arrived(counted, before, log_reader.static)), log_reader, until.head)
    return _union([inside, passed])


def _entered_in_time(
    matches: WindowMatches, before: WindowAt, after: WindowAt, log_reader: LogReader
) -> TimedPositions:
    """The same with one window over time."""
    if after.now_us is None:
        return no_rows()
    (low, high), (old_low, old_high) = after.range_at(after.now_us), before.range_before()
    head, floor, first = before.head, after.floor, min(low, old_low)
    if isinstance(matches.matches, HoldPositions):
        # A late row may repair or break a lasting condition, so older rows may enter.
        return _without(
            matches.times(log_reader, after.head, first, high, floor),
            matches.times(log_reader, head, old_low, old_high, floor),
        )
    parts = [matches.times(log_reader, after.head, first, high, first=max(head, floor))]
    if high > old_high:
        parts.append(matches.times(log_reader, head, max(old_high + 1, first), high, first=floor))
    if low < old_low:
        parts.append(matches.times(log_reader, head, low, min(old_low - 1, high), first=floor))
    return _union(parts)


def came_late(rows: TimedPositions, before: WindowAt, after: WindowAt) -> bool:
    """Whether new rows are older than a window over time that moved on over several cycles: some may never have been inside."""
    span = after.range()
    return span is not None and bool(((rows.positions >= before.head) & (rows.times < span[0])).any())


def came_in_time(rows: TimedPositions, steps: Sequence[WindowAt]) -> TimedPositions:
    """The rows that entered in some cycle. `steps`: the instants of all cycles, from the one before on."""
    heads = np.array([step.head for step in steps], np.int64)
    lows = np.array([step.range_before()[0] for step in steps], np.int64)
    came = np.searchsorted(heads, rows.positions, side="right")  # in which cycle; 0: before all of them
    return rows.take(np.flatnonzero((came == 0) | (rows.times >= lows[came - 1])))


def may_have_left(before: WindowAt, after: WindowAt, log_reader: LogReader) -> bool:
    """Whether readings came between two instants that were outside of the window at the second one, and maybe inside before."""
    low, end = before.range_before()[0], after.range_before()[0] - 1
    first = max(before.head, after.floor)
    return low <= end and bool(len(log_reader.times(None, after.head, low, end, first).positions))


def _without(rows: TimedPositions, others: TimedPositions) -> TimedPositions:
    return rows.take(np.flatnonzero(~np.isin(rows.positions, others.positions, assume_unique=True)))


def _union(parts: list[TimedPositions]) -> TimedPositions:
    together = TimedPositions.together(parts)
    _, unique = np.unique(together.positions, return_index=True)
    return together.take(unique)


def _counted_in(first: int, end: int, matches: WindowMatches, at: WindowAt, log_reader: LogReader) -> TimedPositions:
    return counted_rows(matches, replace(at, floor=max(at.floor, first), head=min(at.head, end)), log_reader)


def counted_rows(matches: WindowMatches, at: WindowAt, log_reader: LogReader) -> TimedPositions:
    """The rows that a window of rows counts, in log order."""
    rows = log_reader.times(matches.base, at.head, first=at.floor)
    if matches.base is not None or matches.passing is None:
        return rows
    return rows.take(np.flatnonzero(matches.passing[rows.vids]))


def newest_counted(log_reader: LogReader, matches: WindowMatches, at: WindowAt) -> TimedPositions:
    """The newest of the rows that a window of rows counts, in log order, from as little of the log as will do.

    Files are read from the newest time backwards, ever more of them at once, until no older file can hold a row
    that belongs.
    """
    window, static = expect(RowsWindow, at.window), log_reader.static
    log_reader.require(matches.base, at.floor, at.head)
    files = sorted(log_reader.segments(), key=lambda s: -s.max_ts)
    files = [f for f in files if f.first < at.head and f.end > at.floor]
    kept = no_rows()
    read, step = 0, 4
    while read < len(files):
        coming = sum(f.end - f.first for f in files[read : read + step])
        if matches.base is None and not log_reader.affords(coming):
            task = log_reader.source.task(newest_counted, replace(matches, matches={}), at)
            return expect(TimedPositions, *log_reader.run([task]))
        taken = [_counted_in(f.first, f.end, matches, at, log_reader) for f in files[read : read + step]]
        read, step = read + step, step * 2
        together = _union([kept, *taken])
        kept = together.take(newest(together, window, static))
        if read < len(files) and files[read].max_ts < _oldest_that_stays(kept, window, matches, static):
            break
    return kept


def _oldest_that_stays(rows: TimedPositions, window: RowsWindow, matches: WindowMatches, static: StaticRows) -> int:
    """Rows before this time cannot be among the newest; NEVER while some group has too few rows."""
    if not window.per_sensor:
        return int(rows.times.min()) if len(rows.times) == window.count else NEVER
    sids, counts = np.unique(static.sids[rows.vids], return_counts=True)
    if matches.heard is None or len(sids) < len(matches.heard) or counts.min(initial=window.count) < window.count:
        return NEVER
    return int(rows.times.min()) if len(rows.times) else NEVER


def newest(rows: TimedPositions, window: RowsWindow, static: StaticRows) -> np.ndarray:
    """Which rows are the newest by (ts, position), in all or per sensor; ascending indices."""
    if len(rows.positions) == 0:
        return np.empty(0, np.int64)
    if not window.per_sensor:
        order = np.lexsort((rows.positions, rows.times))
        return np.sort(order[-window.count :])
    sids = static.sids[rows.vids]
    order = np.lexsort((rows.positions, rows.times, sids))
    sorted_sids = sids[order]
    # Rank from the newest within each sensor: distance to the end of its run.
    ends = np.flatnonzero(np.append(np.diff(sorted_sids) != 0, True))
    rank = ends[np.searchsorted(ends, np.arange(len(order)))] - np.arange(len(order))
    return np.sort(order[rank < window.count])


def arrived(rows: TimedPositions, before: WindowAt, static: StaticRows) -> np.ndarray:
    """Which rows since `before` were among the newest when they came; ascending indices."""
    window = before.window
    assert isinstance(window, RowsWindow)
    known = int(np.searchsorted(rows.positions, before.head))
    held = newest(rows.take(np.arange(known)), window, static)
    groups = static.sids[rows.vids] if window.per_sensor else np.zeros(len(rows.vids), np.int32)
    times: dict[int, list[int]] = {}
    for at in held:
        times.setdefault(int(groups[at]), []).append(int(rows.times[at]))
    for heap in times.values():
        heapq.heapify(heap)
    entered = []
    for at, group, ts in zip(
        range(known, len(groups)), groups[known:].tolist(), rows.times[known:].tolist(), strict=True
    ):
        heap = times.setdefault(group, [])
        if len(heap) < window.count:
            heapq.heappush(heap, ts)
        elif ts >= heap[0]:
            heapq.heapreplace(heap, ts)
        else:
            continue
        entered.append(at)
    return np.array(entered, np.int64)
