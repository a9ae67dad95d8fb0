"""complete_from: said where observation or history does not reach back as far as the window."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.answers import completeness
from penstock.clock import SECOND, format_timestamp
from tests.support.pipe import BEGAN_US, Pipe

HOUR = 3600 * SECOND


def aged(pipe: Pipe, options: str = "") -> None:
    """Sensors that have been observed for two hours, with an old reading and a new one."""
    pipe.probes(options)
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.push(1.0)
    pipe.engine.drain()
    pipe.clock.advance(2 * HOUR)
    pipe.push(2.0)
    pipe.engine.drain()


def test_a_window_inside_what_was_observed_and_kept_is_complete(pipe: Pipe) -> None:
    aged(pipe)
    assert pipe.db.invoke("seen").complete_from_us is None


def test_a_window_that_reaches_back_before_the_sensors_came_says_when_they_came(pipe: Pipe) -> None:
    aged(pipe)
    pipe.db.execute("ALTER QUERY seen SET BEGIN (NOW - 10 HOURS)")
    pipe.engine.drain()
    assert pipe.db.invoke("seen").complete_from_us == BEGAN_US


def test_a_window_that_reaches_back_before_retention_says_what_is_kept(pipe: Pipe) -> None:
    aged(pipe, "WITH (retention = '10 MINUTES')")
    assert pipe.db.invoke("seen").complete_from_us is None  # nothing has been thrown away yet
    table = pipe.db.catalog.state.tables["probes"].id
    pipe.db.housekeeper.tend(table)
    pipe.engine.drain()
    found = pipe.db.invoke("seen")
    assert found.now_us is not None
    assert found.complete_from_us == found.now_us - 600 * SECOND
    assert found.table.column("value").to_pylist() == [2.0]


@pytest.mark.parametrize("latch", [False, True])
@pytest.mark.parametrize("before", [True, False])
def test_a_query_from_its_registration_on_says_what_retention_took_since(before: bool, latch: bool, pipe: Pipe) -> None:
    """Whether or not there were readings when it came; what LATCH has it keeps."""
    pipe.probes("WITH (time = 'valid', retention = '10 MINUTES')")
    asked = "COUNT(*) AS n FROM probes GROUP BY LATCH" if latch else "value FROM probes"
    if not before:
        _sent(pipe, 0.5)
    pipe.db.execute(f"CREATE QUERY since AS SELECT {asked}")
    pipe.engine.drain()
    _sent(pipe, 1.0)
    assert pipe.db.invoke("since").complete_from_us is None
    pipe.clock.advance(2 * HOUR)
    _sent(pipe, 2.0)
    pipe.db.housekeeper.tend(pipe.db.catalog.state.tables["probes"].id)
    pipe.engine.drain()
    found = pipe.db.invoke("since")
    if latch:
        assert (found.table.to_pylist(), found.complete_from_us) == ([{"n": 2 if before else 3}], None)
    else:
        assert found.table.to_pylist() == [{"value": 2.0}] and found.now_us is not None
        assert found.complete_from_us == found.now_us - 600 * SECOND


def _sent(pipe: Pipe, value: float) -> None:
    pipe.clock.advance(1000)
    pipe.db.push("probes", [{"id": 1, "ts": format_timestamp(pipe.clock.now_us()), "value": value}])
    pipe.engine.drain()


def noticed(pipe: Pipe, statement: str) -> bool:
    notices = pipe.db.execute(statement).notices
    assert all('table "probes" keeps readings for 7d' in n and "complete_from" in n for n in notices), notices
    return bool(notices)


def test_a_window_beyond_retention_is_said_when_a_query_is_made_or_changed(pipe: Pipe) -> None:
    pipe.probes("WITH (retention = '7 DAYS')")
    pipe.push(1.0)
    pipe.engine.drain()
    asked = "AS SELECT value FROM probes BEGIN"
    assert not noticed(pipe, f"CREATE QUERY week {asked} (NOW - 7 DAYS) END (NOW)")
    assert noticed(pipe, f"CREATE QUERY month {asked} (NOW - 30 DAYS) END (NOW)")
    assert noticed(pipe, f"CREATE QUERY ever {asked} ('2020-01-01')")
    assert not noticed(pipe, f"CREATE QUERY rows {asked} (LAST 1000 ROWS)")
    assert not noticed(pipe, "CREATE QUERY since AS SELECT value FROM probes")
    assert noticed(pipe, "CREATE QUERY counted AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 8 DAYS) END (NOW)")
    assert noticed(pipe, "ALTER QUERY week SET BEGIN (NOW - 8 DAYS)")
    assert not noticed(pipe, "ALTER QUERY month SET BEGIN (NOW - 6 DAYS)")
    joined = "SELECT a.value FROM probes a, probes b WINDOW = 1 SECOND BEGIN (NOW - 9 DAYS) END (NOW)"
    told = pipe.db.register([("pairs", joined), ("all", "SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")])
    assert [t["notice"] is not None for t in told] == [True, False]


def test_what_a_rollup_has_is_not_missed(pipe: Pipe) -> None:
    pipe.probes("WITH (retention = '7 DAYS')")
    pipe.db.execute("CREATE ROLLUP hours ON probes AS SELECT COUNT(*) EVERY 1 HOUR KEEP 1 YEAR")
    assert not noticed(pipe, "CREATE QUERY counted AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 8 DAYS) END (NOW)")


@pytest.mark.parametrize("asked_before", [True, False])
def test_what_a_rollup_has_of_the_sensors_own_time_is_complete_whoever_asks_when(
    asked_before: bool, pipe: Pipe
) -> None:
    """The log has no first readings any more. They are in cells, and no later ones are taken for them."""
    pipe.probes("WITH (time = 'valid', retention = '10 SECONDS')")
    pipe.db.execute("CREATE ROLLUP seconds ON probes AS SELECT COUNT(*) EVERY 1 SECOND KEEP 1 HOUR")
    pipe.db.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 15 SECONDS) END (NOW)")
    pipe.engine.drain()
    for second in range(30):
        pipe.clock.advance(SECOND)
        valid(pipe, BEGAN_US + second * SECOND)
        if second % 10 == 9:
            found = pipe.db.invoke("q") if asked_before else None
            assert found is None or found.complete_from_us == (BEGAN_US if second == 9 else None)
            pipe.db.housekeeper.tend(pipe.db.catalog.state.tables["probes"].id)
            pipe.engine.drain()
    pipe.db.housekeeper.tend(pipe.db.catalog.state.tables["probes"].id)
    found = pipe.db.invoke("q")
    assert found.table.to_pylist() == [{"n": 16}] and found.notices
    assert found.complete_from_us is None


def valid(pipe: Pipe, *times: int, sensor: int = 1) -> None:
    pipe.clock.advance(1000)
    pipe.db.push("probes", [{"id": sensor, "value": 1.0, "ts": t} for t in times])
    pipe.engine.drain()


def test_the_sensors_own_time_is_complete_from_the_first_reading_on_whatever_the_wall_clock_says(pipe: Pipe) -> None:
    """Readings of long ago, pushed today:   first of 1     first of 2      NOW = newest

    ----------------------------------------|--------------|---------------|----> ts
    """
    pipe.probes("WITH (time = 'valid')")
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.db.execute("CREATE QUERY north AS SELECT value FROM probes WHERE id = 1 BEGIN (NOW - 1 HOUR) END (NOW)")
    past = BEGAN_US - 1000 * HOUR
    pipe.engine.drain()
    assert pipe.db.invoke("seen").complete_from_us is None  # nothing is known of their time
    valid(pipe, past, past + 60 * SECOND)
    assert pipe.db.invoke("seen").complete_from_us == past
    valid(pipe, past + 90 * SECOND, sensor=2)
    assert pipe.db.invoke("seen").complete_from_us == past + 90 * SECOND
    assert pipe.db.invoke("north").complete_from_us == past
    valid(pipe, past + 90 * SECOND + HOUR)
    assert pipe.db.invoke("seen").complete_from_us is None


def test_a_sensor_that_was_opened_again_is_complete_from_its_first_reading_since(pipe: Pipe) -> None:
    pipe.probes("WITH (time = 'valid')")
    pipe.db.execute("CREATE QUERY north AS SELECT value FROM probes WHERE id = 1 BEGIN (NOW - 1 HOUR) END (NOW)")
    valid(pipe, BEGAN_US)
    assert pipe.db.invoke("north").complete_from_us == BEGAN_US
    table = pipe.db.catalog.state.tables["probes"].id
    pipe.db.catalog.observe(table, [], [0])
    pipe.clock.advance(10 * SECOND)
    pipe.db.catalog.observe(table, [0], [])
    assert pipe.db.invoke("north").complete_from_us is None
    pipe.clock.advance(60 * SECOND)
    valid(pipe, BEGAN_US + 30 * SECOND, BEGAN_US + 40 * SECOND)
    assert pipe.db.invoke("north").complete_from_us == BEGAN_US + 30 * SECOND
    pipe.restart()
    assert pipe.db.invoke("north").complete_from_us == BEGAN_US + 30 * SECOND


def test_the_search_for_first_readings_goes_on_where_it_stopped(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completeness, "ROWS_A_LOOK", 2)
    pipe.probes("WITH (time = 'valid')")
    table = pipe.db.catalog.state.tables["probes"].id
    for number in range(5):
        valid(pipe, BEGAN_US + number, sensor=1)
    valid(pipe, BEGAN_US + 7, sensor=2)
    found = completeness.FirstReadings(pipe.db.folder.log)
    sids = pipe.db.catalog.state.rows(table).sids
    looks = [found.latest(table, {0: BEGAN_US, 1: BEGAN_US}, sids) for _ in range(3)]
    assert looks == [BEGAN_US, BEGAN_US, BEGAN_US + 7]
    assert found.latest(table, {0: BEGAN_US + 2500}, sids) == BEGAN_US + 2


def test_the_oldest_file_may_go_while_it_is_looked_at(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention removes just the file that says since when the log has rows."""
    pipe.probes("WITH (time = 'valid')")
    for value in range(3):
        pipe.clock.advance(1_000_000)
        pipe.db.push("probes", [{"id": 1, "ts": format_timestamp(pipe.clock.now_us()), "value": float(value)}])
    table_id = pipe.db.catalog_table("probes").id
    log = pipe.db.folder.log
    oldest, _, newest = completeness.list_readable(log, table_id)
    oldest.path.unlink()
    listed = os.listdir

    def just_before(folder: Path) -> list[str]:
        found = sorted(listed(folder))
        if folder == oldest.path.parent and len(found) == 2:
            (folder / found[0]).unlink()
        return found

    monkeypatch.setattr(os, "listdir", just_before)
    assert completeness.FirstReadings(log).begins(table_id) == pipe.clock.now_us()
    newest.path.unlink()
    assert completeness.FirstReadings(log).begins(table_id) is None
