"""Who follows a query with a rollup is told the same as who asks, while readings go from the log into the rollup."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from penstock.answers.subscription import Subscription
from tests.support.pipe import Pipe
from tests.support.rolled_up import CLIMATE, LAST_DAY, MINUTE_US, forget, held_by, on_disk, rows


def follow(pipe: Pipe, from_cycle: int | None = None, changes: bool = True) -> Subscription:
    return Subscription(pipe.db.standing, "q", from_cycle, changes)


def take_all(subscription: Subscription, answer: Counter[tuple[Any, ...]]) -> None:
    """Apply everything there is to tell to the answer so far."""
    while (event := subscription.next(0)) is not None:
        apply(event.table, answer)


def apply(changes: pa.Table, answer: Counter[tuple[Any, ...]]) -> None:
    for change in changes.to_pylist():
        row = tuple(value for name, value in change.items() if name != "op")
        answer[row] += 1 if change["op"] == "+" else -1
        assert answer[row] >= 0


@pytest.mark.parametrize("window", ["1 DAY", "33 MINUTES"])
def test_who_keeps_up_is_never_told_that_a_cycle_is_gone(pipe: Pipe, window: str) -> None:
    """Every reading goes from the log into minutes and on into hours while the subscriber follows."""
    pipe.db.execute(CLIMATE)
    pipe.db.execute(f"CREATE QUERY q AS {LAST_DAY.replace('1 DAY', window)}")
    pipe.engine.drain()
    subscription, answer = follow(pipe), Counter[tuple[Any, ...]]()
    take_all(subscription, answer)
    for minute in range(0, 100, 10):
        pipe.clock.advance(10 * MINUTE_US)
        pipe.db.push("probes", [{"id": 1, "value": float(minute)}, {"id": 2, "value": 3.0}])
        pipe.engine.drain()
        take_all(subscription, answer)
        for _ in range(2):
            pipe.db.housekeeper.tend(1)
            pipe.engine.drain()
            pipe.db.rollups.sweep(grace_s=0)
            take_all(subscription, answer)
        assert +answer == Counter(rows(pipe))
    assert held_by(pipe).position > 10


def test_who_comes_back_is_told_what_changed_although_readings_were_rolled_up_meanwhile(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute(f"CREATE QUERY q AS {LAST_DAY}")
    for minute in range(0, 40, 2):
        pipe.clock.advance(2 * MINUTE_US)
        pipe.db.push("probes", [{"id": 1, "value": float(minute)}, {"id": 2, "value": 3.0}])
        if minute % 10 == 8:
            forget(pipe)
    pipe.engine.drain()
    before, cycle = held_by(pipe).position, pipe.db.standing.store.cycle
    pipe.restart()  # nothing that somebody looked up before helps
    plain = follow(pipe, cycle + 1, changes=False)
    stood_on = on_disk(pipe)
    for _ in range(3):
        pipe.clock.advance(3 * MINUTE_US)
        pipe.db.push("probes", [{"id": 1, "value": 50.0}])
        forget(pipe)
    pipe.db.rollups.sweep(grace_s=0)
    assert held_by(pipe).position > before and stood_on - on_disk(pipe)
    told = plain.next(0)
    assert told is not None and [row["place"] for row in told.table.to_pylist()] == [
        "north"
    ]  # nothing new in the south
