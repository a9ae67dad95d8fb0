"""Clocks that jump, stand still or come back wrong: NOW goes on, and nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline_pure.clock_world import DAY, HOUR, MINUTE, SECOND, YEAR_2099_US, ClockPipe, Machine
from tests.pipeline_pure.world import BEGAN_US

SOURCES = Path(__file__).parents[2] / "src" / "penstock"
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


@pytest.mark.xfail(strict=True, reason="NOW follows every wall clock")
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


@pytest.mark.xfail(strict=True, reason="NOW follows every wall clock")
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


@pytest.mark.xfail(strict=True, reason="NOW follows every wall clock")
def test_tokens_do_not_end_because_the_wall_clock_jumps(pipe: ClockPipe) -> None:
    pipe.db.users.create_token("admin", "admin", None, None)
    token = pipe.db.users.create_token("logger", "write", None, pipe.machine.wall.now_us() + 365 * DAY)
    pipe.machine.jump_to(YEAR_2099_US)
    assert pipe.db.users.by_token(token) is not None


@pytest.mark.xfail(strict=True, reason="NOW follows every wall clock")
def test_only_the_clock_reads_the_machines_clocks() -> None:
    reads = (
        r"\btime\.time\(|time_ns\(|datetime\.(now|utcnow|today)\(|date\.today\(|\b(localtime|gmtime|clock_gettime)\("
    )
    found = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if re.search(reads, path.read_text())}
    assert found == {"clock.py"}
