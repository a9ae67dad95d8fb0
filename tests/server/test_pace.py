"""Subscribers of aggregates share a budget of processor time; what they miss are older values only."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.server.http.thread_pools import BURST_S, ProcessorShare, Turn
from penstock.views.results import Event
from tests.support.pipe import Pipe

AVERAGE = "CREATE QUERY mean AS SELECT place, AVG(value) AS v FROM probes GROUP BY place BEGIN (NOW - 1 HOUR) END (NOW)"


def test_work_within_its_share_is_never_paused() -> None:
    now = 1000.0
    pace = ProcessorShare(0.25, lambda: now)
    for _ in range(1000):
        assert pace.pause_s(0.001) == 0.0
        now += 0.0041


def test_work_beyond_its_share_waits_until_the_share_is_kept() -> None:
    now, spent = 100.0, 0.0
    pace = ProcessorShare(0.25, lambda: now)
    for _ in range(1000):
        spent += 0.002
        now += pace.pause_s(0.002)
    assert spent / (now - 100.0) == pytest.approx(0.25, rel=0.1)


def test_a_quiet_time_earns_no_more_than_a_short_burst() -> None:
    now = 0.0
    pace = ProcessorShare(0.5, lambda: now)
    now = 10_000.0
    assert pace.pause_s(BURST_S / 2) == 0.0
    assert pace.pause_s(BURST_S / 2) == 0.0
    assert pace.pause_s(BURST_S / 2) > 0.0


def test_work_that_took_less_than_expected_gives_its_time_back() -> None:
    now = 1000.0
    pace = ProcessorShare(0.1, lambda: now)
    for _ in range(100):
        assert pace.pause_s(1.0) == 0.0
        pace.correct(1.0, 0.0)
    assert pace.pause_s(0.0) == 0.0
    pace.correct(0.0, 1.0)
    assert pace.pause_s(0.0) == pytest.approx(10.0 - BURST_S)


def replayed(events: list[Event]) -> Counter[tuple[Any, ...]]:
    rows: Counter[tuple[Any, ...]] = Counter()
    for event in events:
        for row in event.table.to_pylist():
            rows[row["place"], row["v"]] += 1 if row["op"] == "+" else -1
    return +rows


def test_a_subscriber_that_skips_cycles_receives_the_net_change(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(AVERAGE)
    pipe.push(1.0)
    pipe.engine.drain()
    every, some = (pipe.db.subscribe("mean", None, True) for _ in range(2))
    heard: dict[str, list[Event]] = {"every": [], "some": []}
    for round_ in range(12):
        pipe.push(float(round_), 5.0 * round_, sensor=1 + round_ % 2)
        pipe.engine.drain()
        while (event := every.next(0)) is not None:
            heard["every"].append(event)
        if round_ % 4 == 3:
            some.skip_cycles()
            event = some.next(0)
            assert event is not None
            heard["some"].append(event)
            assert some.next(0) is None and some.may_skip_cycles
            assert replayed(heard["some"]) == replayed(heard["every"])
    assert len(heard["some"]) == 3 < len(heard["every"])
    assert [event.cycle for event in heard["some"]] == sorted({event.cycle for event in heard["some"]})


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("panes", ["TUMBLE(2 SECONDS)", "SLIDE(4 SECONDS, 2 SECONDS)"])
def test_a_subscriber_that_skips_cycles_is_told_of_every_pane_while_it_is_whole(
    panes: str, seed: int, pipes: Callable[..., Pipe]
) -> None:
    pipe = pipes()
    pipe.probes()
    grouped = f"SELECT window_start, COUNT(*) AS n FROM probes GROUP BY {panes} BEGIN (NOW - 6 SECONDS) END (NOW)"
    pipe.db.execute(f"CREATE QUERY counted AS {grouped}")
    pipe.push(1.0)
    pipe.engine.drain()
    every, some = (pipe.db.subscribe("counted", None, False) for _ in range(2))
    chance, events = random.Random(seed), [0, 0]
    most: list[dict[Any, int]] = [{}, {}]
    hear(some, most[1], skips=False)
    for _ in range(60):
        pipe.clock.advance(chance.choice((100, 400, 900)) * 1000)
        pipe.push(*[1.0] * chance.randrange(1, 4))
        pipe.engine.drain()
        events[0] += hear(every, most[0], skips=False)
        if chance.random() < 0.15:
            events[1] += hear(some, most[1], skips=True)
    events[1] += hear(some, most[1], skips=True)
    assert most[0] == most[1]
    assert len(most[0]) > 10 and events[1] < events[0] * 0.8


def hear(subscription: Subscription, most: dict[Any, int], skips: bool) -> int:
    """Note the largest count of each pane, before BEGIN cut it. The number of events."""
    count = 0
    while True:
        if skips:
            subscription.skip_cycles()
        event = subscription.next(0)
        if event is None:
            return count
        count += 1
        for row in event.table.to_pylist():
            most[row["window_start"]] = max(row["n"], most.get(row["window_start"], 0))


def test_rows_and_alarms_are_never_skipped(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute("CREATE QUERY hot AS SELECT value FROM probes WHERE value > 1 BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.db.execute(AVERAGE.replace("mean", "over").replace("GROUP BY place", "GROUP BY place HAVING AVG(value) > 10"))
    pipe.push(20.0)
    pipe.engine.drain()
    for name in ("hot", "over"):
        subscription = pipe.db.subscribe(name)
        assert subscription.next(0) is not None
        assert not subscription.may_skip_cycles
        for value in (0.0, 30.0, 40.0):
            pipe.push(value)
            pipe.engine.drain()
        subscription.skip_cycles()
        cycles = []
        while (event := subscription.next(0)) is not None:
            cycles.append(event.cycle)
        assert len(cycles) >= 2


def test_a_turn_is_waited_for_once_and_given_back_by_a_reader_that_leaves() -> None:
    now = 1000.0
    share = ProcessorShare(0.1, lambda: now)
    first, second = Turn(share), Turn(share)
    assert first.wait_s() == 0.0 and not first.waited
    first.end(1.0, usual=True)
    pause_s = first.wait_s()
    assert pause_s == pytest.approx(10.0 - BURST_S) and first.waited
    now += 4.0
    assert first.wait_s() == pytest.approx(pause_s - 4.0)
    first.give_back()
    now += 6.0
    assert second.wait_s() == 0.0
