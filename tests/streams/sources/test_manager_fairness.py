"""No sensor is another's problem: those that hang, fail or always have more, beside one that is good."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from penstock.back_off import BackOff
from penstock.streams.sources.sensor_lifecycle import ManagerLimits
from penstock.streams.sources.sensor_state import SensorState
from tests.sensors.world import (
    FAST,
    IMPATIENT,
    PATIENCE_S,
    Counting,
    Gate,
    Greedy,
    Hanging,
    Stubborn,
    Throwing,
    World,
    addresses,
    sensor_table,
    wait_until,
)


@pytest.fixture(autouse=True)
def _fresh_sensors() -> None:
    Greedy.asked.clear()
    Hanging.gate = Gate()
    Stubborn.gate = Gate()


def test_a_good_sensor_does_not_wait_until_those_that_do_not_answer_count_as_hung() -> None:
    limits = replace(FAST, poll=replace(FAST.poll, threads=2))
    with World(
        (sensor_table(1, Counting), addresses(1)),
        (sensor_table(2, Hanging), addresses(6)),
        (sensor_table(3, Throwing), addresses(6)),
        limits=limits,
    ) as world:
        world.manager.demand("q", 2, range(6))
        world.manager.demand("q", 3, range(6))
        wait_until(lambda: Hanging.gate.came == 6)
        world.manager.demand("q", 1, {0})
        wait_until(lambda: len(world.of(0)) > 20)
        assert Hanging.gate.came == 6 and world.manager._poller.stuck() == 0
        wait_until(lambda: all(s.errors for s in world.manager.states(3)))
        throwing = world.manager.states(3)
        assert all(s.last_error == "RuntimeError: the wire is cut" for s in throwing)
        assert {s.state for s in throwing} <= {"backing off", "open", "opening"}
        Hanging.gate.set()
        wait_until(lambda: all(world.of(sid, 2) for sid in range(6)))


def test_a_good_sensor_is_read_on_beside_those_that_hang_until_they_answer() -> None:
    limits = replace(IMPATIENT, poll=replace(IMPATIENT.poll, threads=2))
    with World(
        (sensor_table(1, Counting), addresses(1)), (sensor_table(2, Hanging), addresses(6)), limits=limits
    ) as world:
        world.manager.demand("q", 2, range(6))
        world.manager.demand("q", 1, {0})
        wait_until(lambda: {s.state for s in world.manager.states(2)} == {"hung"})
        assert world.manager._poller.stuck() >= 6
        before = len(world.of(0))
        wait_until(lambda: len(world.of(0)) > before + 20)
        assert {s.state for s in world.manager.states(2)} == {"hung"}
        Hanging.gate.set()
        wait_until(lambda: world.manager._poller.stuck() == 0)
        wait_until(lambda: {s.state for s in world.manager.states(2)} == {"open"})
        wait_until(lambda: all(world.of(sid, 2) for sid in range(6)))


def test_sensors_that_cannot_be_opened_take_a_bounded_number_of_threads() -> None:
    limits = IMPATIENT.poll
    with World(
        (sensor_table(1, Stubborn), addresses(100)), (sensor_table(2, Counting), addresses(1)), limits=IMPATIENT
    ) as world:

        def in_state(state: str) -> list[SensorState]:
            return [s for s in world.manager.states(1) if s.state == state]

        world.manager.demand("q", 1, range(100))
        world.manager.demand("q", 2, {0})
        wait_until(lambda: len(in_state("hung")) >= limits.stuck_per_group)
        before = len(world.of(0, 2))
        wait_until(lambda: len(world.of(0, 2)) > before + 5)
        wait_until(
            lambda: sum("hang" in str(s.last_error) for s in in_state("backing off")) == 100 - Stubborn.gate.came
        )
        # Threads that were replaced in the same moment may each have taken one more.
        assert limits.stuck_per_group <= Stubborn.gate.came < limits.stuck_per_group + limits.threads
        Stubborn.gate.set()
        wait_until(lambda: len(world.opened()) == 100)


def test_a_failing_sensor_is_tried_again_ever_more_slowly() -> None:
    pauses: list[float] = []

    class Recorded(BackOff):
        def spread_s(self, failures: int) -> float:
            pauses.append(super().spread_s(failures))
            return pauses[-1]

    limits = ManagerLimits(poll=FAST.poll, back_off=Recorded(0.02, 0.2))
    with World((sensor_table(1, Throwing), addresses(1)), limits=limits) as world:
        world.manager.demand("q", 1, {0})
        wait_until(lambda: world.state(0).errors >= 7 and len(pauses) >= 7)
        assert world.state(0).state in ("backing off", "opening", "open")
    for pause_s, most_s in zip(pauses, (0.02, 0.04, 0.08, 0.16, 0.2, 0.2, 0.2), strict=False):
        assert most_s / 2 <= pause_s <= most_s


def test_sensors_that_always_have_more_take_turns() -> None:
    one_thread = replace(FAST, poll=replace(FAST.poll, threads=1, slow_s=600))
    with World((sensor_table(1, Greedy), addresses(20)), limits=one_thread) as world:
        world.manager.demand("q", 1, range(20))
        wait_until(lambda: len(world.opened()) == 20 and len(Greedy.asked) > 1000)
    everybody_since = max(Greedy.asked.index(f"s{sid}") for sid in range(20))
    turns = Greedy.asked[everybody_since:1000]
    assert len(turns) > 500
    assert all(len(set(turns[at : at + 20])) == 20 for at in range(len(turns) - 20))


def test_several_threads_leave_out_nobody_who_always_has_more() -> None:
    with World((sensor_table(1, Greedy), addresses(20))) as world:
        world.manager.demand("q", 1, range(20))
        wait_until(lambda: len(world.opened()) == 20)
        wait_until(lambda: min(s.readings for s in world.manager.states(1)) > 10)


def test_closing_does_not_wait_for_a_sensor_that_hangs() -> None:
    before = set(threading.enumerate())
    world = World((sensor_table(1, Hanging), addresses(1)), limits=IMPATIENT)
    world.manager.demand("q", 1, {0})
    wait_until(lambda: world.manager._poller.stuck() == 1)
    begin_s = time.monotonic()
    world.manager.close(timeout_s=600)
    assert time.monotonic() - begin_s < PATIENCE_S
    left = set(threading.enumerate()) - before
    assert len(left) == 1 and all(t.daemon for t in left)  # the one that the sensor holds
    Hanging.gate.set()
    wait_until(lambda: set(threading.enumerate()) <= before)
