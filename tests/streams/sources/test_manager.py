"""The stream manager: who is opened and who is closed."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from penstock.catalog.model import StreamColumn, TableOptions
from penstock.clock import SECOND
from penstock.errors import error
from penstock.sensors.base import END, Reading, ReadResult, new_value
from penstock.streams.sources import sensor_forwarder
from penstock.streams.sources.manager import ALWAYS_ON
from penstock.types import DOUBLE, INT, Field
from tests.sensors.world import (
    GAS,
    PATIENCE_S,
    Calling,
    Counting,
    Finite,
    Wordy,
    World,
    addresses,
    sensor_table,
    table,
    wait_until,
)


@pytest.fixture(autouse=True)
def _fresh_sensors() -> None:
    Counting.openings.clear()
    Counting.closings.clear()
    Calling.lines.clear()
    Calling.closings.clear()


def test_of_ten_thousand_sensors_the_two_that_are_wanted_are_opened() -> None:
    with World((sensor_table(1, Counting), addresses(10_000))) as world:
        world.manager.demand("q", 1, {17, 4711})
        wait_until(lambda: bool(world.of(17) and world.of(4711)))
        assert sorted(Counting.openings) == ["s17", "s4711"]
        assert world.opened() == [17, 4711] and world.manager.open_count() == 2


def test_a_shared_sensor_is_opened_once_and_closed_by_the_last_to_leave() -> None:
    with World((sensor_table(1, Counting), addresses(5))) as world:
        world.manager.demand("a", 1, {1, 2})
        world.manager.demand("b", 1, {2, 3})
        wait_until(lambda: world.opened() == [1, 2, 3])
        assert sorted(Counting.openings) == ["s1", "s2", "s3"]
        assert world.state(2).holders == 2
        world.manager.release("a")
        wait_until(lambda: world.closed() == [1] and world.state(1).state == "closed")
        assert world.state(2).state == "open"
        world.manager.demand("b", 1, set())
        wait_until(lambda: world.closed() == [1, 2, 3])
        assert sorted(Counting.closings) == ["s1", "s2", "s3"] and world.manager.open_count() == 0


def test_a_new_demand_replaces_the_holders_old_one() -> None:
    with World((sensor_table(1, Counting), addresses(5))) as world:
        world.manager.demand("q", 1, np.array([0, 1]))
        wait_until(lambda: world.opened() == [0, 1])
        world.manager.demand("q", 1, [1, 2])
        wait_until(lambda: world.opened() == [0, 1, 2] and world.closed() == [0])
        assert Counting.openings.count("s1") == 1


def test_an_opening_is_journalled_before_its_first_reading_and_a_closing_after_its_last() -> None:
    with World((sensor_table(1, Finite), addresses(1))) as world:
        world.manager.demand("q", 1, {0})
        wait_until(lambda: world.closed() == [0])
        kinds = [kind for kind, _ in world.events]
        assert kinds[0] == "observe" and kinds[-1] == "observe" and set(kinds[1:-1]) == {"push"}
        assert world.of(0) == [(2.0,), (1.0,), (0.0,)]


def test_many_openings_make_few_entries() -> None:
    begin_s = time.monotonic()
    with World((sensor_table(1, Counting), addresses(2000))) as world:
        world.manager.demand("q", 1, range(2000))
        wait_until(lambda: len(world.opened()) == 2000)
        # One entry per pause, however long the machine takes to open them all.
        assert len(world.observed) <= (time.monotonic() - begin_s) / sensor_forwarder._GATHER_S + 1


def test_a_sensor_that_ended_in_a_former_life_is_shown_as_ended_and_not_opened_again() -> None:
    with World((sensor_table(1, Finite), addresses(3)), ended_before=(0, 2)) as world:
        assert {s.sid: s.state for s in world.manager.states(1)} == {0: "ended", 2: "ended"}
        world.manager.demand("q", 1, {0, 1})
        wait_until(lambda: world.closed() == [1] and world.state(1).state == "ended")
        assert world.opened() == [1] and world.ended_sids == {0, 1, 2} and not world.of(0)
        assert {s.sid: (s.state, s.holders) for s in world.manager.states(1)} == {
            0: ("ended", 1),
            1: ("ended", 1),
            2: ("ended", 0),
        }
        assert world.manager.open_count() == 0
        world.addresses[1][0] = "another file"
        world.manager.refresh()
        wait_until(lambda: len(world.of(0)) == 3)


def test_a_sensor_that_ended_stays_ended_whoever_asks_again() -> None:
    with World((sensor_table(1, Finite), addresses(1))) as world:
        world.manager.demand("q", 1, {0})
        wait_until(lambda: world.closed() == [0])
        world.manager.release("q")
        world.manager.demand("r", 1, {0})
        assert world.manager._poller.drain(PATIENCE_S)  # whatever these two have made due is done
        assert world.state(0).state == "ended" and len(world.of(0)) == 3
        world.addresses[1][0] = "another file"
        world.manager.refresh()
        wait_until(lambda: len(world.of(0)) == 6)


def test_a_value_that_does_not_fit_spoils_only_its_own_reading() -> None:
    with World((sensor_table(1, Wordy), {0: "w"}), (sensor_table(2, Counting), {0: "c"})) as world:
        world.manager.demand("q", 1, {0})
        wait_until(lambda: world.closed() == [0])
        assert world.of(0) == [(1.5,), (None,), (2.0,)]
        assert world.state(0).errors == 2 and "not a number" in world.state(0).last_error


def test_readings_wait_while_the_disk_is_full_and_none_is_lost() -> None:
    with World((sensor_table(1, Counting), addresses(3))) as world:
        full = threading.Event()
        full.set()
        refused: list[BaseException] = []

        def refuse() -> BaseException | None:
            if not full.is_set():
                return None
            refused.append(error("disk_full"))
            return refused[-1]

        world.refuse = refuse
        world.manager.demand("q", 1, range(3))
        wait_until(lambda: bool(refused) and all(s.readings > 3 for s in world.manager.states(1)))
        assert world.pushed == []
        full.clear()
        wait_until(lambda: all(len(world.of(sid)) > 12 for sid in range(3)))
        for sid in range(3):
            values = [row[0] for row in world.of(sid)]
            assert values == [float(n) for n in range(1, len(values) + 1)]


def test_readings_carry_the_sensors_time_only_where_the_table_keeps_it() -> None:
    transaction = replace(sensor_table(2, Finite), options=TableOptions(time="transaction"))
    with World((sensor_table(1, Finite), addresses(1)), (transaction, addresses(1))) as world:
        world.manager.demand("q", 1, {0})
        world.manager.demand("q", 2, {0})
        wait_until(lambda: world.closed(1) == [0] and world.closed(2) == [0])
        assert {t is None for table_id, _, t, _ in world.pushed if table_id == 2} == {True}
        assert all(isinstance(t, int) and t > 0 for table_id, _, t, _ in world.pushed if table_id == 1)


def test_an_always_on_table_keeps_all_its_sensors_open_and_opens_new_ones() -> None:
    always = replace(sensor_table(1, Counting), options=TableOptions(time="valid", always_on=True))
    with World((always, addresses(3))) as world:
        world.manager.refresh()
        wait_until(lambda: world.opened() == [0, 1, 2])
        world.manager.demand("q", 1, {1})
        world.manager.release("q")
        world.addresses[1][3] = "s3"
        world.manager.refresh(1)
        wait_until(lambda: world.opened() == [0, 1, 2, 3])
        assert world.closed() == []
        world.manager.release(ALWAYS_ON)
        wait_until(lambda: world.closed() == [0, 1, 2, 3])


def test_pushed_tables_and_sensors_without_an_address_open_nothing() -> None:
    http = table(1, connector="http", fields=GAS)
    bare = table(2, connector=None, fields=GAS)
    with World((http, addresses(2)), (bare, addresses(2)), (sensor_table(3, Counting), {0: None, 1: "s1"})) as world:
        for table_id in (1, 2, 3):
            world.manager.demand("q", table_id, {0, 1})
        wait_until(lambda: world.opened(3) == [1])
        assert world.manager.open_count() == 1 and world.opened(1) == world.opened(2) == []


def test_a_deleted_sensor_is_closed_and_a_moved_one_opened_at_its_new_address() -> None:
    with World((sensor_table(1, Counting), addresses(2))) as world:
        world.manager.demand("q", 1, {0, 1})
        wait_until(lambda: world.opened() == [0, 1])
        del world.addresses[1][0]
        world.addresses[1][1] = "elsewhere"
        world.manager.refresh()
        wait_until(lambda: Counting.openings.count("elsewhere") == 1 and "s0" in Counting.closings)
        wait_until(lambda: world.opened() == [0, 1, 1] and world.closed() == [0, 1])
        wait_until(lambda: world.state(0).state == "closed")
        assert world.state(1).address == "elsewhere"


def test_a_connector_that_is_no_longer_installed_is_an_error_of_its_sensors_only() -> None:
    lost = table(1, connector="zigbee")
    with World((lost, addresses(1)), (sensor_table(2, Counting), addresses(1))) as world:
        world.manager.demand("q", 1, {0})
        world.manager.demand("q", 2, {0})
        world.manager.refresh()
        wait_until(lambda: bool(world.of(0, 2)) and world.state(0).errors > 0)
        assert "zigbee" in world.state(0).last_error


def test_a_dropped_table_closes_its_sensors() -> None:
    with World((sensor_table(1, Counting), addresses(2))) as world:
        world.manager.demand("q", 1, {0, 1})
        wait_until(lambda: world.opened() == [0, 1])
        del world.tables_by_id[1]
        world.manager.refresh()
        wait_until(lambda: sorted(Counting.closings) == ["s0", "s1"])
        assert world.manager.open_count() == 0 and world.manager.states(1) == []


def test_a_field_added_to_the_stream_reopens_its_sensors_and_loses_nothing() -> None:
    with World((sensor_table(1, Counting), addresses(1))) as world:
        world.manager.demand("q", 1, {0})
        wait_until(lambda: len(world.of(0)) > 2)
        old = world.tables_by_id[1]
        assert isinstance(old.stream, StreamColumn)
        fields = (*old.stream.fields, Field("n", INT))
        world.tables_by_id[1] = replace(old, stream=replace(old.stream, fields=fields))
        world.manager.refresh()
        wait_until(lambda: (1.0, None) in world.of(0))
        assert Counting.openings == ["s0", "s0"]


def test_what_a_killed_server_left_open_is_journalled_as_closed_before_it_is_opened_again() -> None:
    with World((sensor_table(1, Counting), addresses(3)), left_open=(0, 1)) as world:
        world.manager.demand("q", 1, {1})
        wait_until(lambda: world.opened() == [1] and world.closed() == [0, 1])
        assert world.observed[0] == (1, [], [0, 1]) or world.observed[0] == (1, [], [1])
        assert world.state(1).state == "open"


def test_a_push_sensor_calls_until_it_is_closed() -> None:
    with World((sensor_table(1, Calling), addresses(2))) as world:
        world.manager.demand("q", 1, {0, 1})
        wait_until(lambda: world.opened() == [0, 1])
        Calling.lines["s0"](new_value((1.0,), time_us=5))
        Calling.lines["s0"](Reading(ReadResult.NEW_VALUE, [(2.0,), (3.0,)]))
        wait_until(lambda: world.of(0) == [(1.0,), (2.0,), (3.0,)])
        old = Calling.lines["s1"]
        old.failed(ConnectionError("gone"))
        wait_until(lambda: Calling.lines["s1"] is not old)
        old(new_value((9.0,)))
        Calling.lines["s1"](new_value((4.0,)))
        wait_until(lambda: world.of(1) == [(4.0,)])
        assert world.state(1).last_error == "ConnectionError: gone"
        Calling.lines["s0"](END)
        wait_until(lambda: world.closed() == [0] and world.state(0).state == "ended")
    assert Calling.closings.count("s0") == 1 and world.closed() == [0, 1]


def test_a_sensor_without_readings_for_the_tables_idle_time_is_shown_as_idle() -> None:
    quiet = table(1, connector="simulator", kind="silent", options=TableOptions(time="valid", idle_us=50_000))
    with World((quiet, addresses(1))) as world:
        world.manager.demand("q", 1, {0})
        wait_until(lambda: world.state(0).state == "idle")


def test_a_replaying_sensor_is_told_what_the_log_holds() -> None:
    past = table(1, connector="simulator", fields=GAS, start="1h", rate="1")
    newest = int(time.time() - 10) * SECOND
    with World((past, addresses(1)), newest_us=(newest,)) as world:
        world.manager.demand("q", 1, {0})
        wait_until(lambda: len(world.of(0)) >= 10)
        assert min(t for _, _, t, _ in world.pushed if t is not None) > newest


def test_closing_closes_every_sensor_stores_the_last_readings_and_ends_all_threads() -> None:
    before = set(threading.enumerate())
    world = World((sensor_table(1, Counting), addresses(50)))
    world.manager.demand("q", 1, range(50))
    wait_until(lambda: len(world.opened()) == 50 and all(s.readings for s in world.manager.states(1)))
    world.manager.close(PATIENCE_S)
    assert len(Counting.closings) == 50 and len(world.closed()) == 50
    assert len(world.pushed) == sum(s.readings for s in world.manager.states(1))
    assert set(threading.enumerate()) <= before


def test_thousands_of_simulators_are_read_in_few_pushes() -> None:
    many = table(1, connector="simulator", fields=(Field("value", DOUBLE),), rate="2")
    with World((many, addresses(3000))) as world:
        world.manager.demand("q", 1, range(3000))
        wait_until(lambda: len(world.pushed) > 6000)
        assert world.pushes < len(world.pushed) / 5
