"""Clocks that jump, stand still or come back wrong: NOW goes on, and nothing is lost."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.clock_guard import FolderClock, GuardedClock
from penstock.errors import PenstockError
from penstock.security.caller import acting_as
from tests.support.clock_world import DAY, HOUR, MINUTE, SECOND, YEAR_2099_US, ClockPipe, Machine
from tests.support.manual_clock import ManualClock
from tests.support.pipe import BEGAN_US

SOURCES = Path(__file__).parents[1] / "src" / "penstock"
JUMPS = {
    "an hour on": HOUR,
    "a day on": DAY,
    "to 2099": YEAR_2099_US - BEGAN_US,
    "an hour back": -HOUR,
    "to 1970": -BEGAN_US,
}


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[ClockPipe]:
    found = ClockPipe(tmp_path / "data")
    yield found
    found.db.stop()


def opened(machine: Machine, folder: Path, known_us: int | None = None) -> GuardedClock:
    (folder / "tmp").mkdir(exist_ok=True)
    clock = machine.clock()
    clock.open(folder, known_us)
    return clock


# -- the guard alone


def test_small_steps_are_followed_at_once(machine: Machine) -> None:
    clock = machine.clock()
    machine.run(HOUR)
    machine.jump(59 * SECOND)
    assert clock.now_us() == machine.wall.now_us() and clock.status().sentence is None


def test_jitter_neither_stops_now_nor_turns_it_back(machine: Machine) -> None:
    clock, chance, last = machine.clock(), random.Random(5), 0
    for _ in range(1000):
        machine.run(100_000)
        true_us = machine.wall.now_us()
        machine.jump_to(true_us + chance.randint(-20_000, 20_000))
        assert last <= clock.now_us() <= true_us + 20_000
        assert clock.now_us() >= true_us - 20_000
        last = clock.now_us()
        machine.jump_to(true_us)


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS.keys())
def test_now_goes_on_at_its_own_pace_after_a_jump(machine: Machine, jump: int) -> None:
    clock = machine.clock()
    began = clock.now_us()
    machine.jump(jump)
    for second in range(1, 14 * 60):
        machine.run(SECOND)
        assert clock.now_us() == began + second * SECOND
    status = clock.status()
    assert status.state == "held" and f"clock held at {jump // SECOND:+d} s" in (status.sentence or "")
    assert ("ACCEPT CLOCK" in (status.sentence or "")) == (abs(jump) > DAY)
    machine.jump(-jump)
    assert clock.now_us() == machine.wall.now_us() and clock.status().sentence is None


@pytest.mark.parametrize("jump", [HOUR, DAY])
def test_a_step_forward_of_a_day_is_followed_once_it_was_stable_for_fifteen_minutes(
    machine: Machine, jump: int
) -> None:
    clock = machine.clock()
    clock.now_us()
    machine.jump(jump)
    clock.now_us()
    machine.run(10 * MINUTE)
    clock.now_us()
    machine.jump(5 * MINUTE - (HOUR if jump == DAY else 0))  # it was set once more: the fifteen minutes begin anew
    clock.now_us()
    machine.run(14 * MINUTE)
    assert clock.status().state == "held"
    machine.run(MINUTE)
    assert clock.now_us() == machine.wall.now_us() and clock.status().state == "followed"


def test_a_larger_step_is_followed_only_when_it_is_accepted(machine: Machine) -> None:
    clock = machine.clock()
    clock.now_us()
    machine.jump(DAY + 2 * MINUTE)
    clock.now_us()
    machine.run(40 * DAY)
    assert clock.status().state == "held" and clock.now_us() == BEGAN_US + 40 * DAY
    clock.accept()
    assert clock.now_us() == machine.wall.now_us() and clock.status().state == "followed"


def test_a_step_back_is_followed_at_half_pace(machine: Machine) -> None:
    clock = machine.clock()
    clock.now_us()
    machine.jump(-HOUR)
    clock.now_us()
    machine.run(15 * MINUTE)
    ahead = clock.now_us()
    assert ahead == BEGAN_US + 15 * MINUTE and clock.status().state == "followed"
    machine.run(HOUR)
    assert clock.now_us() == ahead + HOUR // 2
    machine.run(HOUR)
    assert clock.now_us() == ahead + HOUR == machine.wall.now_us()
    machine.run(HOUR)
    assert clock.now_us() == machine.wall.now_us()


def test_a_clock_that_stands_still_is_not_followed(machine: Machine) -> None:
    clock = machine.clock()
    for _ in range(3600):
        machine.elapsed += SECOND
        clock.now_us()
    assert clock.status().state == "held" and clock.now_us() >= BEGAN_US + HOUR - 31 * SECOND
    machine.jump(HOUR)
    assert clock.status().state == "followed" and clock.now_us() == machine.wall.now_us()


@pytest.mark.parametrize("seed", range(20))
def test_now_never_goes_back_and_never_runs_away(tmp_path: Path, seed: int) -> None:
    machine, chance = Machine(), random.Random(seed)
    clock, last, most = opened(machine, tmp_path), BEGAN_US, BEGAN_US
    for _ in range(300):
        what = chance.random()
        if what < 0.6:
            machine.run(chance.choice([1, 1000, SECOND, MINUTE, HOUR]))
        elif what < 0.8:
            machine.jump(chance.choice([1, -1]) * chance.choice([1000, SECOND, 50 * SECOND, HOUR, 20 * DAY]))
        elif what < 0.9:
            machine.elapsed += chance.choice([SECOND, HOUR])
        else:
            clock.close()
            if chance.random() < 0.5:
                machine.reboot(chance.choice([MINUTE, DAY, 40 * DAY]))
            clock = opened(machine, tmp_path, last)
        now = clock.now_us()
        if clock.status().state == "followed":
            most = max(most, machine.wall.now_us())
        assert last <= now <= max(most, last + 2 * HOUR), "NOW follows the wall clock or the time that passes"
        assert clock.retention_us() <= now
        last = now
    clock.close()


# -- starts


def test_a_restart_after_a_jump_still_holds_it(machine: Machine, tmp_path: Path) -> None:
    clock = opened(machine, tmp_path)
    machine.run(MINUTE)
    machine.jump_to(YEAR_2099_US)
    clock.now_us()
    clock.close()
    machine.run(MINUTE)
    clock = opened(machine, tmp_path, BEGAN_US)
    assert clock.status().state == "held" and clock.now_us() == BEGAN_US + 2 * MINUTE
    clock.accept()
    clock.close()
    clock = opened(machine, tmp_path, BEGAN_US)
    assert clock.status().state == "followed" and clock.now_us() == YEAR_2099_US + MINUTE
    clock.close()
    machine.reboot(HOUR)
    clock = opened(machine, tmp_path, BEGAN_US)
    assert clock.status().state == "followed" and clock.now_us() == machine.wall.now_us()
    clock.close()


@pytest.mark.parametrize(
    ("off", "state", "lag"),
    [(HOUR, "followed", 0), (3 * DAY, "followed", 2 * DAY), (40 * DAY, "untrusted", 0), (-HOUR, "untrusted", 0)],
)
def test_what_a_start_of_the_machine_believes(machine: Machine, tmp_path: Path, off: int, state: str, lag: int) -> None:
    opened(machine, tmp_path).close()
    machine.reboot(off)
    clock = opened(machine, tmp_path, BEGAN_US)
    status = clock.status()
    assert (status.state, status.retention_lag_us) == (state, lag)
    assert clock.now_us() == (machine.wall.now_us() if state == "followed" else BEGAN_US)
    clock.close()
    clock = opened(machine, tmp_path, BEGAN_US)  # to start once more changes nothing
    assert (clock.status().state, clock.status().retention_lag_us) == (state, lag)
    if state == "untrusted":
        assert "ALTER SYSTEM ACCEPT CLOCK" in (clock.status().sentence or "")
        machine.jump_to(BEGAN_US + HOUR)  # it is set right
        assert clock.status().state == "followed" and clock.now_us() == BEGAN_US + HOUR
    clock.close()


def test_retention_catches_up_after_a_week_of_agreement(machine: Machine, tmp_path: Path) -> None:
    opened(machine, tmp_path).close()
    machine.reboot(10 * DAY)
    clock = opened(machine, tmp_path)
    assert clock.retention_us() == machine.wall.now_us() - 9 * DAY
    machine.run(6 * DAY)
    clock.close()
    clock = opened(machine, tmp_path)
    assert clock.retention_us() == machine.wall.now_us() - 9 * DAY
    machine.run(DAY)
    assert clock.retention_us() == machine.wall.now_us()
    clock.close()
    machine.reboot(10 * DAY)
    clock = opened(machine, tmp_path)
    clock.accept()
    assert clock.retention_us() == clock.now_us() == machine.wall.now_us()
    clock.close()


def test_damage_to_its_file_harms_nothing(machine: Machine, tmp_path: Path) -> None:
    opened(machine, tmp_path).close()
    machine.reboot(3 * DAY)
    whole = (tmp_path / "clock.json").read_bytes()
    for at in range(len(whole)):
        (tmp_path / "clock.json").write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        clock = opened(machine, tmp_path, BEGAN_US)
        assert (clock.status().state, clock.status().retention_lag_us) == ("followed", 2 * DAY)
        clock.close()


def test_another_process_has_the_same_now(machine: Machine, tmp_path: Path) -> None:
    clock, other = opened(machine, tmp_path), FolderClock(tmp_path, machine.elapsed_us)
    for jump in (SECOND, HOUR, -HOUR, -30 * SECOND):
        machine.jump(jump)
        for _ in range(40):
            machine.run(MINUTE)
            clock._tend()
            machine.run(SECOND)
            assert other.now_us() == clock.now_us()
    clock.close()


# -- a database


def lively(pipe: ClockPipe) -> None:
    """Readings of half an hour, one a minute, a window, an alarm and a rollup."""
    pipe.probes("WITH (retention = '1 HOUR')")
    pipe.db.execute(
        "CREATE ROLLUP climate ON probes AS SELECT place, AVG(value) GROUP BY place EVERY 1 MINUTE KEEP 1 DAY, EVERY 1 HOUR"
    )
    pipe.db.execute("CREATE QUERY recent AS SELECT value FROM probes BEGIN (NOW - 20 MINUTES) END (NOW)")
    pipe.db.execute(
        "CREATE QUERY alarm AS SELECT value FROM probes WHERE value > 100 BEGIN (NOW - 5 MINUTES) END (NOW)"
    )
    for number in range(30):
        pipe.machine.run(MINUTE)
        pipe.push(float(number))
    pipe.engine.drain()


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS.keys())
def test_after_a_jump_nothing_is_deleted_and_alarms_go_on(pipe: ClockPipe, jump: int) -> None:
    lively(pipe)
    recent = pipe.answer("recent")
    assert len(recent) == 20
    subscription = pipe.db.subscribe("alarm")
    subscription.next(0)
    pipe.machine.jump(jump)
    for number in range(10):
        assert pipe.forget() == 30 + number
        assert pipe.answer("recent")[-15:] == [*recent, *([0.5] * number)][-15:]
        pipe.machine.run(MINUTE)
        pipe.push(0.5)
    pipe.push(101.0)
    pipe.engine.drain()
    assert pipe.answer("alarm") == [101.0]
    event = subscription.next(5)
    assert event is not None and event.table.column("value").to_pylist() == [101.0]
    health = pipe.db.health()
    assert health.ready and f"clock held at {jump // SECOND:+d} s" in health.details["clock"]
    assert pipe.db.status()["clock"]["held"] is True
    pipe.restart()
    assert pipe.answer("alarm") == [101.0] and pipe.forget() == 41
    assert "clock held" in pipe.db.health().details["clock"]
    if abs(jump) > DAY:
        pipe.machine.run(DAY)
        assert "clock held" in pipe.db.health().details["clock"]


def test_a_jump_to_2099_can_be_accepted_and_stays_so(pipe: ClockPipe) -> None:
    lively(pipe)
    pipe.machine.jump_to(YEAR_2099_US)
    assert pipe.forget() == 30
    result = pipe.db.execute("ALTER SYSTEM ACCEPT CLOCK")
    assert result.done == "ALTER SYSTEM ACCEPT CLOCK" and "2099-01-01" in result.notices[0]
    assert "clock" not in pipe.db.health().details
    pipe.push(7.0)
    pipe.engine.drain()
    assert pipe.answer("recent") == [7.0]
    assert pipe.forget() == 1, "the newest file always stays"
    pipe.restart()
    pipe.push(8.0)
    pipe.engine.drain()
    assert pipe.answer("recent") == [7.0, 8.0] and "clock" not in pipe.db.health().details


def test_a_machine_that_was_off_for_forty_days_asks_for_the_statement(pipe: ClockPipe) -> None:
    lively(pipe)
    pipe.db.execute("CREATE TABLE slow (id INT PRIMARY KEY, r STREAM (v DOUBLE)) WITH (time = 'valid')")
    pipe.db.execute("INSERT INTO slow VALUES (1, NULL)")
    pipe.db.stop()
    pipe.machine.reboot(40 * DAY)
    pipe.open()
    health = pipe.db.health()
    assert not health.ready and "ALTER SYSTEM ACCEPT CLOCK" in health.reason
    true_us, known_us = pipe.machine.wall.now_us(), pipe.db.clock.now_us()
    for table, row in (
        ("probes", {"id": 1, "value": 1.0}),
        ("slow", {"id": 1, "v": 1.0}),
        ("slow", {"id": 1, "v": 1.0, "ts": true_us}),
    ):
        with pytest.raises(PenstockError, match="ALTER SYSTEM ACCEPT CLOCK") as refused:
            pipe.db.push(table, [row])
        assert (refused.value.condition, refused.value.status) == ("clock_untrusted", 503)
    assert pipe.db.push("slow", [{"id": 1, "v": 1.0, "ts": known_us}]).accepted == 1
    assert pipe.answer("recent")[-3:] == [27.0, 28.0, 29.0] and pipe.forget() == 30
    pipe.db.execute("ALTER SYSTEM ACCEPT CLOCK")
    pipe.push(1.0)
    assert pipe.db.push("slow", [{"id": 1, "v": 1.0, "ts": true_us}]).accepted == 1
    pipe.engine.drain()
    assert pipe.db.health().ready and pipe.answer("recent") == [1.0]


def test_retention_takes_a_day_at_once_after_three_days_off(pipe: ClockPipe) -> None:
    pipe.probes("WITH (retention = '36 HOURS')")
    for number in range(30):
        pipe.machine.run(HOUR)
        pipe.push(float(number))
    pipe.db.stop()
    pipe.machine.reboot(10 * DAY)
    pipe.open()
    pipe.push(30.0)
    assert pipe.forget() == 31 - 18, "those that were 36 hours old after one more day"
    pipe.db.execute("ALTER SYSTEM ACCEPT CLOCK")
    assert pipe.forget() == 1


def test_a_sensor_in_2099_neither_empties_windows_nor_feeds_retention(pipe: ClockPipe) -> None:
    pipe.probes("WITH (time = 'valid', retention = '1 HOUR')")
    pipe.db.execute("CREATE QUERY recent AS SELECT value FROM probes BEGIN (NOW - 20 MINUTES) END (NOW)")
    for number in range(30):
        pipe.machine.run(MINUTE)
        pipe.db.push("probes", [{"id": 1, "value": float(number), "ts": pipe.machine.wall.now_us()}])
    pipe.engine.drain()
    recent = pipe.answer("recent")
    for wall in (None, YEAR_2099_US):
        if wall is not None:
            pipe.machine.jump_to(
                wall
            )  # the server's clock, too: then nothing but the time that passed says what is right
        receipt = pipe.db.push("probes", [{"id": 2, "value": 1.0, "ts": YEAR_2099_US - HOUR}])
        assert [refusal.condition for refusal in receipt.refused] == ["too_far_ahead"]
        pipe.engine.drain()
        assert pipe.answer("recent") == recent and pipe.forget() == 30
    assert pipe.db.ingest.counters("probes")["refused"]["too_far_ahead"] == 2


def test_readings_that_a_step_of_an_hour_explains_are_to_be_sent_again(pipe: ClockPipe) -> None:
    """A virtual machine that was stopped for an hour: its sensors are right, and its own time is an hour behind."""
    pipe.probes("WITH (time = 'valid')")
    pipe.machine.jump(HOUR)
    with pytest.raises(PenstockError) as refused:
        pipe.db.push("probes", [{"id": 1, "value": 1.0, "ts": pipe.machine.wall.now_us()}])
    assert refused.value.condition == "clock_untrusted" and "stable for 15 minutes" in refused.value.message
    receipt = pipe.db.push("probes", [{"id": 1, "value": 1.0, "ts": YEAR_2099_US}])
    assert [refusal.condition for refusal in receipt.refused] == ["too_far_ahead"]
    pipe.machine.run(15 * MINUTE)
    assert pipe.db.push("probes", [{"id": 1, "value": 1.0, "ts": pipe.machine.wall.now_us()}]).accepted == 1


def test_tokens_do_not_end_because_the_wall_clock_jumps(pipe: ClockPipe) -> None:
    pipe.db.users.create_token("admin", "admin", None, None)
    token = pipe.db.users.create_token("logger", "write", None, pipe.machine.wall.now_us() + 365 * DAY)
    pipe.machine.jump_to(YEAR_2099_US)
    assert pipe.db.users.by_token(token) is not None


def test_only_an_admin_accepts_the_clock(pipe: ClockPipe) -> None:
    pipe.db.users.create_token("admin", "admin", None, None)
    for role in ("read", "write"):
        caller = pipe.db.users.by_token(pipe.db.users.create_token(role, role, None, None))  # type: ignore[arg-type]
        with acting_as(caller), pytest.raises(PenstockError) as refused:
            pipe.db.execute("ALTER SYSTEM ACCEPT CLOCK")
        assert refused.value.condition == "forbidden"


def test_a_clock_of_ones_own_has_no_guard(tmp_path: Path) -> None:
    from penstock.clock_guard import clock_status, retention_now_us

    clock = ManualClock(5)
    clock.set(YEAR_2099_US)
    assert clock_status(clock).sentence is None and retention_now_us(clock) == YEAR_2099_US


def test_only_the_clock_reads_the_machines_clocks() -> None:
    reads = (
        r"\btime\.time\(|time_ns\(|datetime\.(now|utcnow|today)\(|date\.today\(|\b(localtime|gmtime|clock_gettime)\("
    )
    found = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if re.search(reads, path.read_text())}
    assert found == {"clock.py"}
