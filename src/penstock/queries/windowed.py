"""Cut a query's matches to its window at one committed cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.catalog.rows import StaticRows
from penstock.operators.windows import RowsWindow, TimeWindow, Window
from penstock.queries.answers import NEVER, Blocks
from penstock.queries.fetch import Fetcher, TimedPositions, offsets_in


@dataclass(frozen=True, slots=True)
class Matches:
    """A query's bitmaps, safe to read while the next cycle is folded in. `base` None: every row counts."""

    matches: Blocks
    base: Blocks | None


@dataclass(frozen=True, slots=True)
class Instant:
    """What a window is cut by: where the table's log begins and ends, NOW, START, and the window itself."""

    floor: int
    head: int
    now_us: int | None
    start_us: int | None
    window: Window

    def range(self) -> tuple[int, int] | None:
        """[low, high] of a time window; None where no NOW is known yet."""
        assert isinstance(self.window, TimeWindow)
        if self.now_us is None:
            return None
        return self.window.resolve(self.now_us, self.start_us if self.start_us is not None else NEVER)


def rows_inside(matches: Matches, at: Instant, fetcher: Fetcher, static: StaticRows) -> TimedPositions:
    """All matches inside the window, in log order."""
    if isinstance(at.window, RowsWindow):
        newest = newest_rows(matches.base, at, at.window, fetcher, static)
        named = offsets_in(matches.matches, 0, at.head, 0)
        return newest.take(np.flatnonzero(np.isin(newest.positions, named, assume_unique=True)))
    span = at.range()
    if span is None:
        return fetcher.times({}, 0)
    return fetcher.times(matches.matches, at.head, *span, first=at.floor)


def rows_entered(matches: Matches, before: Instant, after: Instant, fetcher: Fetcher) -> TimedPositions:
    """Rows that came into a time window since `before`, those included that left again within the cycle."""
    new, old = after.range(), before.range()
    if new is None:
        return fetcher.times({}, 0)
    if old is None:
        return fetcher.times(matches.matches, after.head, *new, first=after.floor)
    (low, high), (old_low, old_high) = new, old
    head, floor = before.head, after.floor
    parts = [fetcher.times(matches.matches, after.head, min(low, old_low), high, first=max(head, floor))]
    if high > old_high:
        parts.append(fetcher.times(matches.matches, head, max(old_high + 1, min(low, old_low)), high, first=floor))
    if low < old_low:
        parts.append(fetcher.times(matches.matches, head, low, min(old_low - 1, high), first=floor))
    together = TimedPositions(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("positions", "times", "vids")))
    _, unique = np.unique(together.positions, return_index=True)
    return together.take(unique)


def newest_rows(
    base: Blocks | None, at: Instant, window: RowsWindow, fetcher: Fetcher, static: StaticRows
) -> TimedPositions:
    """The newest rows by (ts, position), in all or per sensor, in log order."""
    rows = fetcher.times(base, at.head, first=at.floor)
    if len(rows.positions) == 0:
        return rows
    if not window.per_sensor:
        order = np.lexsort((rows.positions, rows.times))
        return rows.take(np.sort(order[-window.count :]))
    sids = static.sids[rows.vids]
    order = np.lexsort((rows.positions, rows.times, sids))
    sorted_sids = sids[order]
    # Rank from the newest within each sensor: distance to the end of its run.
    ends = np.flatnonzero(np.append(np.diff(sorted_sids) != 0, True))
    rank = ends[np.searchsorted(ends, np.arange(len(order)))] - np.arange(len(order))
    return rows.take(np.sort(order[rank < window.count]))
