"""Events that several subscribers are told are made once, and say to each what they would have said to it alone."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.views.feed import MOST_EVENT_BYTES, MOST_EVENTS, SharedEvents
from penstock.views.results import Event
from tests.support.pipe import Pipe


def event_of(values: list[int]) -> Event:
    return Event(1, None, pa.table({"a": values}))


def never() -> Event:
    raise AssertionError("it was made already")


def test_who_asks_second_gets_the_first_ones() -> None:
    events = SharedEvents()
    first = events.get("k", lambda: event_of([1]))
    assert events.get("k", never) is first
    assert events.get("other", lambda: event_of([2])) is not first


def test_one_that_failed_is_made_again() -> None:
    events = SharedEvents()
    with pytest.raises(AssertionError):
        events.get("k", never)
    assert events.get("k", lambda: event_of([1])).table.num_rows == 1


def test_large_and_old_ones_are_let_go() -> None:
    events = SharedEvents()
    large = list(range(MOST_EVENT_BYTES))
    assert events.get("large", lambda: event_of(large)) is not events.get("large", lambda: event_of(large))
    first = events.get(1, lambda: event_of([1]))
    second = events.get(2, lambda: event_of([2]))
    for key in range(3, 2 + MOST_EVENTS):
        events.get(key, lambda: event_of([3]))
    assert events.get(2, never) is second
    assert events.get(1, lambda: event_of([1])) is not first


def test_many_at_once_make_one() -> None:
    events, made, gate = SharedEvents(), list[int](), threading.Barrier(8)

    def make() -> Event:
        made.append(1)
        return event_of([1])

    def ask(take: Callable[[], Event]) -> None:
        gate.wait()
        take()

    threads = [threading.Thread(target=ask, args=(lambda: events.get("k", make),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_one_that_comes_after_retention_is_told_what_is_left(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY counted AS SELECT id, COUNT(value) AS n FROM probes GROUP BY id")
    pipe.push(1.0, 2.0, 3.0)
    pipe.engine.drain()
    fast, slow = pipe.db.subscribe("counted"), pipe.db.subscribe("counted")
    for subscription in (fast, slow):
        event = subscription.next(0.0)
        assert event is not None and event.table["n"].to_pylist() == [3]
    pipe.push(4.0)
    pipe.engine.drain()
    event = fast.next(0.0)
    assert event is not None and event.table["n"].to_pylist() == [4]
    pipe.db.catalog.retain(pipe.db.catalog.state.tables["probes"].id, 2)
    pipe.engine.drain()
    for subscription in (fast, slow):
        told = []
        while (event := subscription.next(0.0)) is not None:
            told += event.table["n"].to_pylist()
        assert told[-1:] == pipe.answer("counted", "n") == [2]
        subscription.close()
