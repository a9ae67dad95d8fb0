"""The last committed cycles, for subscribers and for clients that wait for their own writes, and the last events of queries."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field

from penstock.cache import Cache
from penstock.cancellation import current_cancellation
from penstock.cycle.offset import Offset
from penstock.errors import PenstockError, error
from penstock.sql.plan import ResamplePlan
from penstock.views.results import Event
from penstock.views.stream_clock_index import StreamClocksAt

_log = logging.getLogger("penstock.queries")
MOST_EVENTS = 64
# A first answer may be of any size, and is one subscriber's.
MOST_EVENT_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class JoinMark:
    """A join at one cycle: the results of its answer, their number, and its NOW."""

    generation: int
    count: int
    now_us: int | None


@dataclass(frozen=True, slots=True)
class ResampleMark:
    """A query with RESAMPLE at one cycle: what it asks, its START and its NOW, and where the cycle before ended."""

    plan: ResamplePlan
    start_us: int | None
    now_us: int | None
    previous: Offset | None


@dataclass(frozen=True, slots=True)
class Mark:
    """One committed cycle: its end, NOW of each valid-time stream that a query reads, joins and queries with RESAMPLE.

    `watermarks`: by table, the time before which no reading can come in a later cycle.
    `clocks`: NOW of the queries for which several streams decide it, beside joins.
    """

    cycle: int
    end: Offset
    nows: StreamClocksAt
    joins: dict[int, JoinMark] = field(default_factory=dict)
    resampled: dict[int, ResampleMark] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)
    clocks: dict[int, int | None] = field(default_factory=dict)


class CommitFeed:
    """The last committed cycles, in order. Readers wait on it; the follower appends."""

    def __init__(self, keep: int) -> None:
        self._marks: deque[Mark] = deque(maxlen=keep)
        self._changed = threading.Condition()
        self._closed = False
        self._wakes = 0
        self._listeners: list[Callable[[], None]] = []

    def append(self, mark: Mark) -> None:
        with self._changed:
            self._marks.append(mark)
        self.wake()

    def clear(self) -> None:
        """Forget all cycles: they are about to be appended again."""
        with self._changed:
            self._marks.clear()

    def listen(self, callback: Callable[[], None]) -> None:
        """Call back, from the follower, whenever something may be new."""
        with self._changed:
            self._listeners.append(callback)

    def unlisten(self, callback: Callable[[], None]) -> None:
        with self._changed:
            if callback in self._listeners:
                self._listeners.remove(callback)

    def close(self) -> None:
        with self._changed:
            self._closed = True
        self.wake()

    @property
    def closed(self) -> bool:
        return self._closed

    def wake(self) -> None:
        with self._changed:
            self._wakes += 1
            self._changed.notify_all()
            listeners = list(self._listeners)
        for callback in listeners:
            try:
                callback()
            except Exception as failure:  # a listener's error must not make a commit fail
                _log.warning("a subscriber could not be notified and is removed: %s", failure)
                self.unlisten(callback)

    def last(self) -> Mark | None:
        with self._changed:
            return self._marks[-1] if self._marks else None

    def mark(self, cycle: int) -> Mark:
        """A kept cycle; cycle_gone where it is older than what is kept, or is still to come."""
        with self._changed:
            oldest = self._marks[0].cycle if self._marks else 0
            newest = self._marks[-1].cycle if self._marks else 0
            if cycle > newest:
                raise PenstockError("cycle_gone", f"cycle {cycle} has not come yet; the newest is {newest}")
            if not self._marks or cycle < oldest:
                raise error("cycle_gone", cycle=cycle, oldest=oldest)
            return self._marks[cycle - oldest]

    def between(self, first: int, last: int) -> list[Mark]:
        """The cycles between two others, as far as they are kept."""
        with self._changed:
            return [mark for mark in self._marks if first < mark.cycle < last]

    def before(self, mark: Mark) -> list[Mark]:
        """The cycle before one, where it is kept."""
        with self._changed:
            oldest = self._marks[0].cycle if self._marks else 0
            return [self._marks[mark.cycle - 1 - oldest]] if mark.cycle > oldest else []

    def oldest(self) -> int:
        with self._changed:
            return self._marks[0].cycle if self._marks else 0

    def first_resampled(self, query_id: int, after: int) -> int | None:
        """The first kept cycle after one at which a query with RESAMPLE answers."""
        with self._changed:
            return next((m.cycle for m in self._marks if m.cycle > after and query_id in m.resampled), None)

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition holds that commits can make true; a statement that is cancelled ends here."""
        cancellation = current_cancellation()
        if cancellation is None or until():
            return self._wait(until, timeout_s)
        left_s = cancellation.left_s()
        forget = cancellation.on_stop(self._rouse)
        try:
            found = self._wait(
                lambda: cancellation.stopped or until(), timeout_s if left_s is None else min(timeout_s, left_s)
            )
            cancellation.check()
            return found
        finally:
            forget()

    def _rouse(self) -> None:
        with self._changed:
            self._wakes += 1
            self._changed.notify_all()

    def _wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while True:
            with self._changed:
                wakes = self._wakes
                if self._closed:
                    return False
            # Asked without this lock: a condition may take locks under which others read this feed.
            if until():
                return True
            with self._changed:
                while self._wakes == wakes:
                    if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                        return False

    def wait_past(self, cycle: int, timeout_s: float) -> bool:
        return self.wait(lambda: (last := self.last()) is not None and last.cycle > cycle, timeout_s)


class SharedEvents:
    """A cache of the events that many subscribers of a query get: each is computed once and encoded once.

    A caller that asks for an event while another computes it waits for it. An event that was dropped is computed again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: Cache[Hashable, Future[Event]] = Cache(most=MOST_EVENTS)

    def get(self, key: Hashable, make: Callable[[], Event]) -> Event:
        with self._lock:
            found = self._events.get(key)
            if found is None:
                coming = Future[Event]()
                self._events.put(key, coming)
        if found is not None:
            return found.result()
        try:
            event = make()
        except BaseException as failure:
            self._forget(key)
            coming.set_exception(failure)
            raise
        if event.table.nbytes > MOST_EVENT_BYTES:
            self._forget(key)
        coming.set_result(event)
        return event

    def _forget(self, key: Hashable) -> None:
        with self._lock:
            self._events.remove(key)
