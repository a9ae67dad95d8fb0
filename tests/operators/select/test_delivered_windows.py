"""A plain subscriber is told of every row that enters, once, also when windows are changed under it."""

from __future__ import annotations

from typing import Any

from penstock.answers.subscription import Subscription
from penstock.clock import SECOND
from penstock.operators.select import delivered_windows as telling
from tests.support.pipe import BEGAN_US, Pipe


def send(pipe: Pipe, *rows: tuple[int, int], sensor: int = 1) -> None:
    """(seconds, value)"""
    readings = [{"id": sensor, "value": float(v), "ts": BEGAN_US + s * SECOND} for s, v in rows]
    assert pipe.db.push("probes", readings).accepted == len(rows)
    pipe.engine.drain()


def heard(subscription: Subscription) -> list[Any]:
    found: list[Any] = []
    while (event := subscription.next(0)) is not None:
        found += event.table.column("value").to_pylist()
    return found


def alter(pipe: Pipe, window: str) -> None:
    pipe.db.execute(f"ALTER QUERY seen SET {window}")
    pipe.engine.drain()


def follow(pipe: Pipe, window: str = "BEGIN (NOW - 10 SECONDS) END (NOW)") -> Subscription:
    pipe.clock.advance(3600 * SECOND)
    pipe.probes("WITH (time = 'valid', out_of_order = 'accept')")
    pipe.db.execute(f"CREATE QUERY seen AS SELECT value FROM probes WHERE value > 0 {window}")
    pipe.engine.drain()
    subscription = pipe.db.subscribe("seen")
    assert heard(subscription) == []
    return subscription


def test_rows_that_left_and_come_back_with_a_wider_window_are_not_told_again(pipe: Pipe) -> None:
    subscription = follow(pipe)
    send(pipe, (0, 1), (5, 2))
    send(pipe, (20, 3))
    assert heard(subscription) == [1.0, 2.0, 3.0]
    alter(pipe, "BEGIN (NOW - 1 MINUTE)")
    assert heard(subscription) == []
    assert pipe.answer("seen") == [1.0, 2.0, 3.0]
    send(pipe, (21, 4))
    alter(pipe, "BEGIN (NOW - 1 SECOND)")
    alter(pipe, "BEGIN (NOW - 1 HOUR)")
    assert heard(subscription) == [4.0]


def test_a_row_that_came_too_late_is_told_when_a_wider_window_reaches_it(pipe: Pipe) -> None:
    subscription = follow(pipe)
    send(pipe, (0, 1), (30, 2))
    send(pipe, (1, 3))  # its window has passed
    send(pipe, (31, 4))
    assert heard(subscription) == [1.0, 2.0, 4.0]
    alter(pipe, "BEGIN (NOW - 1 MINUTE)")
    assert heard(subscription) == [3.0]
    alter(pipe, "BEGIN (NOW - 2 MINUTES)")
    assert heard(subscription) == []


def test_a_window_that_jumps_tells_what_lies_between_when_it_comes_to_it(pipe: Pipe) -> None:
    subscription = follow(pipe, "BEGIN (NOW - 5 SECONDS) END (NOW)")
    send(pipe, *((s, s + 1) for s in range(40)))
    first = heard(subscription)
    alter(pipe, "BEGIN (NOW - 30 SECONDS) END (NOW - 20 SECONDS)")
    second = heard(subscription)
    alter(pipe, "BEGIN (NOW - 1 HOUR) END (NOW)")
    third = heard(subscription)
    assert sorted([*first, *second, *third]) == [float(s + 1) for s in range(40)]


def test_what_is_forgotten_of_long_ago_is_told_again_rather_than_kept_back(pipe: Pipe, monkeypatch: Any) -> None:
    monkeypatch.setattr(telling, "MOST_CYCLES", 4)
    subscription = follow(pipe, "BEGIN (NOW - 2 SECONDS) END (NOW)")
    for second in range(20):
        send(pipe, (second, second + 1))
    told = heard(subscription)
    assert told == [float(s + 1) for s in range(20)]
    alter(pipe, "BEGIN (NOW - 1 HOUR)")
    assert set(heard(subscription)) <= set(told)
    send(pipe, (0, 77), sensor=2)
    assert heard(subscription) == [77.0]


def test_the_first_rows_are_told_by_a_wider_window_if_they_lay_before_a_constant_begin(pipe: Pipe) -> None:
    subscription = follow(pipe, "BEGIN (TIMESTAMP '2025-11-15 07:00:27') END (NOW)")
    send(pipe, (0, 1), (1, 2))
    send(pipe, (28, 3))
    assert heard(subscription) == [3.0]
    alter(pipe, "BEGIN (TIMESTAMP '2025-11-15 07:00:01')")
    assert heard(subscription) == [2.0]
    alter(pipe, "BEGIN (LAST 3 ROWS)")
    assert heard(subscription) == [1.0]
