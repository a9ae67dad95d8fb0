"""Events that many subscribers of a query are told: fetched once, encoded once, whoever asks first.

A cache and nothing more: an event that is not here any more is made again.
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
    """The last events, by what they tell. Who comes while one is being made waits for it."""

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
