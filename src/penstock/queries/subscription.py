"""Push: what one subscriber gets, cycle by cycle. Computed when it is asked for, so slow readers hold nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.operators.windows import RowsWindow
from penstock.queries.feed import Feed
from penstock.queries.fetch import Fetcher
from penstock.queries.results import Event
from penstock.queries.standing import Held, StandingQueries
from penstock.queries.windowed import rows_entered, rows_inside


class Subscription(Protocol):
    """One subscriber. `next` waits for the next event; None where none came in time."""

    def next(self, timeout_s: float) -> Event | None: ...

    def on_ready(self, callback: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


class Waiting:
    """The part that all subscribers share: being told that a cycle was committed, and letting go."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._closed = False
        self._callbacks: list[Callable[[], None]] = []

    def on_ready(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        self._feed.listen(callback)
        callback()

    def _is_closed(self) -> bool:
        return self._closed or self._feed.closed

    def close(self) -> None:
        self._closed = True
        for callback in self._callbacks:
            self._feed.unlisten(callback)
        self._feed.wake()


class SelectSubscription(Waiting):
    """A subscriber to a query of the shared pass.

    Plain: the current answer, then every row that enters, once. With changes: net changes per cycle with `op`.
    `from_cycle` n skips the current answer and begins with what cycle n brought.
    """

    def __init__(self, standing: StandingQueries, name: str, from_cycle: int | None, changes: bool) -> None:
        super().__init__(standing.feed)
        self._standing = standing
        self._name = name
        self._changes = changes
        self._before: Held | None = None
        self._positions: np.ndarray | None = None
        last = standing.feed.last()
        if from_cycle is not None and last is not None and from_cycle <= last.cycle + 1:
            # The cycle before must be known, so that what came in can be told from what was there.
            self._before = standing.held(name, from_cycle - 1)
            self._remember(self._before)

    @property
    def cycle(self) -> int:
        return self._before.cycle if self._before is not None else 0

    def next(self, timeout_s: float) -> Event | None:
        if self._is_closed():
            return None
        if self._before is None:
            return self._first(timeout_s)
        deadline = time.monotonic() + timeout_s
        while self._standing.feed.wait_past(self.cycle, max(0.0, deadline - time.monotonic())):
            event = None if self._is_closed() else self._step(self.cycle + 1)
            if event is not None or self._is_closed():
                return event
        return None

    def _first(self, timeout_s: float) -> Event | None:
        """The current answer; complete, so a query that fills its window is waited for, cycle by cycle."""
        if not self._standing.is_ready(self._name, timeout_s):
            return None
        held = self._standing.held(self._name)
        fetcher = self._standing.fetcher(held)
        positions = rows_inside(held.matches, held.instant, fetcher, held.static).positions
        self._before, self._positions = held, positions
        return self._event(held, fetcher, positions, np.empty(0, np.int64))

    def _remember(self, held: Held) -> None:
        if self._changes or isinstance(held.instant.window, RowsWindow):
            fetcher = self._standing.fetcher(held)
            self._positions = rows_inside(held.matches, held.instant, fetcher, held.static).positions

    def _step(self, cycle: int) -> Event | None:
        """What one cycle brought; None where it brought nothing."""
        before = self._before
        assert before is not None
        held = self._standing.held(self._name, cycle)
        self._before = held
        fetcher = self._standing.fetcher(held)
        if self._changes or isinstance(held.instant.window, RowsWindow):
            old = self._positions if self._positions is not None else np.empty(0, np.int64)
            new = rows_inside(held.matches, held.instant, fetcher, held.static).positions
            self._positions = new
            entered, left = np.setdiff1d(new, old), np.setdiff1d(old, new)
            if len(entered) == 0 and (len(left) == 0 or not self._changes):
                return None
            return self._event(held, fetcher, entered, left)
        if isinstance(before.instant.window, RowsWindow):
            entered = rows_inside(held.matches, held.instant, fetcher, held.static).positions
        else:
            entered = rows_entered(held.matches, before.instant, held.instant, fetcher).positions
        return self._event(held, fetcher, entered, np.empty(0, np.int64)) if len(entered) else None

    def _event(self, held: Held, fetcher: Fetcher, entered: np.ndarray, left: np.ndarray) -> Event:
        rows = fetcher.rows(held.plan, entered, held.values)
        if self._changes:
            rows = with_operation(rows, "+")
            if len(left):
                rows = pa.concat_tables([with_operation(self._rows_gone(held, fetcher, left), "-"), rows])
        return Event(held.cycle, held.instant.now_us, rows)

    def _rows_gone(self, held: Held, fetcher: Fetcher, left: np.ndarray) -> pa.Table:
        try:
            return fetcher.rows(held.plan, left, held.values)
        except PenstockError:
            # Retention may have taken the row itself; then its leaving cannot be told by its values.
            return fetcher.rows(held.plan, left[:0], held.values)


def with_operation(rows: pa.Table, operation: str) -> pa.Table:
    return rows.add_column(0, "op", pa.array([operation] * rows.num_rows, pa.string()))
