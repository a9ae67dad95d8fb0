"""A cache of the events that many subscribers of a query get: each is computed once and encoded once.

An event that the cache has dropped is computed again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future

from penstock.cache import Cache
from penstock.views.results import Event

MOST_EVENTS = 64
# A first answer may be of any size, and is one subscriber's.
MOST_BYTES = 1 << 18


class SharedEvents:
    """The last events by key. A caller that asks for an event while another computes it waits for it."""

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
        if event.table.nbytes > MOST_BYTES:
            self._forget(key)
        coming.set_result(event)
        return event

    def _forget(self, key: Hashable) -> None:
        with self._lock:
            self._events.remove(key)
