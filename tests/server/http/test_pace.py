"""Subscribers of aggregates share a budget of processor time; what they miss are older values only."""

from __future__ import annotations

import asyncio
import functools
import random
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.errors import PenstockError
from penstock.server.http.thread_pools import BURST_S, MINING_BURST_S, ProcessorShare, Turn
from penstock.views.results import Event
from tests.support.examples import seeds
from tests.support.pipe import Pipe

AVERAGE = "CREATE QUERY mean AS SELECT place, AVG(value) AS v FROM probes GROUP BY place BEGIN (NOW - 1 HOUR) END (NOW)"


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Shared:
    """A share with a clock that moves with the pauses, and the order of those that had a turn."""

    def __init__(self, share: float) -> None:
        self.share = ProcessorShare(share, lambda: self.now_s)
        self.now_s = 1000.0
        self.spent_s = 0.0
        self.had: list[str] = []

    async def work(self, name: str, spent_s: float) -> float:
        """Wait for a turn and have it. How long the wait was."""
        began_s = self.now_s
        await self.share.take()
        self.had.append(name)
        self.spent_s += spent_s
        self.share.end(spent_s)
        return self.now_s - began_s


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Shared:
    found, sleep, own = Shared(0.25), asyncio.sleep, threading.get_ident()

    async def moved(pause_s: float) -> None:
        if threading.get_ident() != own:  # a server of another test that runs in this process
            return await sleep(pause_s)
        found.now_s += pause_s
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", moved)
    return found


@in_a_loop
async def test_work_within_its_share_is_never_paused(shared: Shared) -> None:
    for _ in range(1000):
        assert not shared.share.is_busy
        assert await shared.work("one", 0.001) == 0.0
        shared.now_s += 0.0041


@in_a_loop
async def test_work_beyond_its_share_waits_until_the_share_is_kept(shared: Shared) -> None:
    began_s = shared.now_s
    for _ in range(1000):
        await shared.work("one", 0.002)
    assert shared.share.is_busy
    assert shared.spent_s / (shared.now_s - began_s) == pytest.approx(0.25, rel=0.1)


@in_a_loop
async def test_a_quiet_time_earns_no_more_than_a_short_burst(shared: Shared) -> None:
    shared.now_s += 10_000.0
    assert await shared.work("one", BURST_S * 0.25) == 0.0
    assert await shared.work("one", 1.0) == 0.0
    assert await shared.work("one", 0.0) == pytest.approx(4.0)


@in_a_loop
async def test_mining_does_at_once_what_its_share_allows_in_ten_seconds(shared: Shared) -> None:
    shared.share = ProcessorShare(0.25, lambda: shared.now_s, MINING_BURST_S)
    shared.now_s += 60.0
    assert [await shared.work(name, 0.4) for name in "abcdef"] == [0.0] * 6
    assert await shared.work("g", 0.4) == 0.0
    assert await shared.work("h", 0.4) == pytest.approx(1.2)


@in_a_loop
async def test_turns_come_in_the_order_in_which_they_were_asked_for(shared: Shared) -> None:
    await asyncio.gather(*(shared.work(name, 0.5) for name in "abcdef"))
    assert shared.had == list("abcdef")


@in_a_loop
async def test_a_place_that_is_given_back_goes_to_the_next(shared: Shared) -> None:
    first, second, third = (Turn(shared.share) for _ in range(3))
    await first.ask()
    assert not first.waited
    asked = second.ask(), third.ask()
    assert second.waited
    await asyncio.sleep(0)
    second.end()
    first.end(0.1)
    await asked[1]
    assert asked[0].cancelled() and third.waited
    third.end()
    assert not shared.share._lock.locked()


@in_a_loop
async def test_a_turn_that_comes_while_its_subscriber_is_away_is_passed_on(shared: Shared) -> None:
    first, second, third = (Turn(shared.share) for _ in range(3))
    await first.ask()
    missed, last = second.ask(), third.ask()
    second.is_away = True
    first.end(0.1)
    await last
    assert missed.done()
    second.is_away = False
    again = second.ask()
    await asyncio.sleep(0)
    assert again is not missed and not again.done()
    third.end()
    await again
    second.end()


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


@pytest.mark.parametrize("seed", seeds(2, 6))
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
    events = list(events_now(subscription, skips))
    for row in (row for event in events for row in event.table.to_pylist()):
        most[row["window_start"]] = max(row["n"], most.get(row["window_start"], 0))
    return len(events)


def events_now(subscription: Subscription, skips: bool) -> Iterator[Event]:
    """The events that are there already. `skips`: several cycles may be one event."""
    while True:
        if skips:
            subscription.skip_cycles()
        event = subscription.next(0)
        if event is None:
            return
        yield event


SELECTED = "CREATE QUERY hot AS SELECT id, value, ts FROM probes WHERE value > 2 BEGIN"


@pytest.mark.parametrize("seed", seeds(2, 20))
@pytest.mark.parametrize("window", ["(NOW - 3 SECONDS) END (NOW)", "(NOW - 5 SECONDS) END (NOW - 1 SECOND)"])
def test_a_subscriber_of_a_selection_that_skips_cycles_receives_the_same_rows(
    window: str, seed: int, pipes: Callable[..., Pipe]
) -> None:
    """Late readings count if they were inside the window of their own cycle, and rows that came and went are there too."""
    pipe, chance = pipes(), random.Random(seed)
    pipe.probes("WITH (time = 'valid', out_of_order = 'accept')")
    pipe.db.execute(f"{SELECTED} {window}")
    pipe.engine.drain()
    every, some = (pipe.db.subscribe("hot") for _ in range(2))
    told: list[Counter[tuple[Any, ...]]] = [Counter(), Counter()]
    events, value = [receive(subscription, Counter(), skips=False) for subscription in (every, some)], 0
    for _ in range(80):
        pipe.clock.advance(chance.choice((100, 400, 900, 2_500)) * 1000)
        rows = []
        for _ in range(chance.randrange(4)):
            value += 1
            late_us = chance.choice((0, 0, 1_000_000, 2_900_000, 3_100_000, 6_000_000))
            ts = datetime.fromtimestamp((pipe.clock.now_us() - late_us) / 1e6, UTC)
            rows.append({"id": 1 + value % 2, "value": float(chance.choice((1, value))), "ts": ts})
        if rows:
            pipe.db.push("probes", rows)
        if chance.random() < 0.03:
            pipe.db.execute(f"ALTER QUERY hot SET BEGIN (NOW - {chance.randrange(1, 9)} SECONDS) END (NOW)")
        pipe.engine.drain()
        events[0] += receive(every, told[0], skips=False)
        if chance.random() < 0.15:
            events[1] += receive(some, told[1], skips=True)
    events[1] += receive(some, told[1], skips=True)
    assert told[0] == told[1] and len(told[0]) > 20 and events[1] < events[0] * 0.8


def far_behind(pipe: Pipe, window: str, old_us: int | None) -> list[Any]:
    """The values that a subscriber receives which looks again when the cycles that it missed are kept no more.

    In the second of them a reading came that is so much older than the first one it had (None: no such reading).
    """

    def push(value: float, ts_us: int) -> None:
        pipe.db.push("probes", [{"id": 1, "value": value, "ts": datetime.fromtimestamp(ts_us / 1e6, UTC)}])
        pipe.engine.drain()

    pipe.probes("WITH (time = 'valid', out_of_order = 'accept')")
    pipe.db.execute(f"{SELECTED} (NOW - {window}) END (NOW)")
    began_us = pipe.clock.now_us()
    push(10.0, began_us)
    subscription = pipe.db.subscribe("hot")
    assert subscription.next(0) is not None
    push(11.0, began_us + 10_000_000)
    if old_us is not None:
        push(12.0, began_us - old_us)
    for number in range(20):
        push(20.0 + number, began_us + (11 + number) * 1_000_000)
    told = Counter[tuple[Any, ...]]()
    receive(subscription, told, skips=True)
    return sorted(value for _, value, _ in told)


HOUR_US = 3_600_000_000


@pytest.mark.parametrize(("old_us", "inside"), [(None, False), (2_000_000, True), (HOUR_US + 1_000_000, False)])
def test_a_subscriber_that_is_far_behind_receives_all_rows(
    old_us: int | None, inside: bool, pipes: Callable[..., Pipe]
) -> None:
    wanted = [11.0, *[12.0] * inside, *(20.0 + number for number in range(20))]
    assert far_behind(pipes(cycles_keep=5), "1 HOUR", old_us) == wanted


@pytest.mark.parametrize(("window", "old_us"), [("3 SECONDS", None), ("1 HOUR", HOUR_US - 5_000_000)])
def test_a_subscriber_is_told_where_rows_may_be_missing_or_too_many(
    window: str, old_us: int | None, pipes: Callable[..., Pipe]
) -> None:
    with pytest.raises(PenstockError) as refused:
        far_behind(pipes(cycles_keep=5), window, old_us)
    assert refused.value.condition == "cycle_gone"


def receive(subscription: Subscription, told: Counter[tuple[Any, ...]], skips: bool) -> int:
    """Note the rows of all events; how many events there were."""
    events = list(events_now(subscription, skips))
    told.update((row["id"], row["value"], row["ts"]) for event in events for row in event.table.to_pylist())
    return len(events)


def test_a_subscriber_of_changes_of_a_selection_skips_no_cycle(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(f"{SELECTED} (NOW - 1 HOUR) END (NOW)")
    pipe.push(20.0)
    pipe.engine.drain()
    changes, rows = pipe.db.subscribe("hot", None, True), pipe.db.subscribe("hot")
    assert changes.next(0) is not None and rows.next(0) is not None
    assert rows.may_skip_cycles and not changes.may_skip_cycles


def test_alarms_are_never_skipped(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(
        "CREATE QUERY held AS SELECT value FROM probes WHERE value > 1 FOR 1 SECONDS BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    pipe.db.execute(AVERAGE.replace("mean", "over").replace("GROUP BY place", "GROUP BY place HAVING AVG(value) > 10"))
    pipe.push(20.0)
    pipe.engine.drain()
    for name in ("held", "over"):
        subscription = pipe.db.subscribe(name)
        assert subscription.next(0) is not None
        assert not subscription.may_skip_cycles
        for value in (30.0, 40.0, 50.0):
            pipe.clock.advance(2_000_000)
            pipe.push(value)
            pipe.engine.drain()
        subscription.skip_cycles()
        cycles = []
        while (event := subscription.next(0)) is not None:
            cycles.append(event.cycle)
        assert len(cycles) >= 2
