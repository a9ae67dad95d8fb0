"""Rollups: what retention takes is kept in coarser cells, used by itself, and the answer says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from tests.support.pipe import BEGAN_US, Pipe
from tests.support.rolled_up import CLIMATE, LAST_DAY, MINUTE_US, forget, held_by, live, rows


def test_a_window_longer_than_retention_is_answered_from_log_and_rollup(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute(f"CREATE QUERY q AS {LAST_DAY}")
    live(pipe, 150)
    expected = [("north", 30, 1.0), ("south", 30, 3.0)]
    assert pipe.db.catalog.state.retention(1) > 40
    assert rows(pipe) == expected
    assert {file.every_us // MINUTE_US for file in held_by(pipe).files} == {1, 60}
    assert sum(file.readings for file in held_by(pipe).files) == held_by(pipe).position
    told = pipe.db.invoke("q").notices
    assert told == (
        'rolled up: 2025-11-15T07:00:00Z to 2025-11-15T08:00:00Z is from "climate", every 1h',
        'rolled up: 2025-11-15T08:00:00Z to 2025-11-15T09:16:00Z is from "climate", every 1m',
    )
    pipe.restart()
    assert rows(pipe) == expected and pipe.db.invoke("q").notices == told


def test_without_a_rollup_or_with_one_of_something_else_the_answer_is_short_and_says_so(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute(
        "CREATE QUERY q AS SELECT COUNT(*) AS n, STDDEV(value) AS s FROM probes BEGIN (NOW - 1 DAY) END (NOW)"
    )
    live(pipe, 60)
    found = pipe.db.invoke("q")
    assert found.table.column("n").to_pylist()[0] < 24 and found.notices == ()
    assert found.complete_from_us == pipe.clock.now_us() - 10 * MINUTE_US
    told = "\n".join(pipe.db.execute("EXPLAIN q").table.column("plan").to_pylist())
    assert 'rollup "climate" is not used: it does not keep ' in told


def test_what_where_asks_of_the_keys_is_asked_of_the_cells(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute(
        "CREATE QUERY q AS SELECT upper(place) AS p, SUM(value) AS s FROM probes WHERE place LIKE 'n%'"
        " GROUP BY upper(place) BEGIN (NOW - 1 DAY) END (NOW)"
    )
    pipe.db.execute("CREATE QUERY r AS SELECT SUM(value) AS s FROM probes WHERE id = 1 BEGIN (NOW - 1 DAY) END (NOW)")
    live(pipe, 60)
    assert rows(pipe) == [("NORTH", 12.0)]
    told = "\n".join(pipe.db.execute("EXPLAIN r").table.column("plan").to_pylist())
    assert "its keys do not say it" in told and rows(pipe, "r") != [(12.0,)]


def test_an_edge_that_would_cut_a_cell_moves_inwards_and_complete_from_with_it(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 139 MINUTES) END (NOW)")
    pipe.db.execute("CREATE QUERY early AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 1 DAY) END (NOW - '2h19m1s')")
    live(pipe, 150)
    # 139 minutes ago was 07:11, inside an hour that has no minutes any more.
    found = pipe.db.invoke("q")
    eight = BEGAN_US + 60 * MINUTE_US  # 07:00 is where everything began
    assert found.complete_from_us == eight
    assert "rolled up: the window begins at 2025-11-15T08:00:00Z, because no cell is cut" in found.notices
    assert found.table.to_pylist() == [{"n": 2 * 19}]  # from 08:00 to 09:30, both ends
    found = pipe.db.invoke("early")
    assert "rolled up: the window ends at 2025-11-15T06:59:59.999999Z, because no cell is cut" in found.notices
    assert found.table.to_pylist() == [{"n": 0}]


def test_panes_that_are_finer_than_the_cells_begin_where_cells_are_fine_enough(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    for minutes in (1, 30, 60):
        pipe.db.execute(
            f"CREATE QUERY q{minutes} AS SELECT window_start, COUNT(*) AS n FROM probes"
            f" GROUP BY TUMBLE({minutes} MINUTES) BEGIN (NOW - 1 DAY) END (NOW)"
        )
    live(pipe, 150)
    assert [n for _, n in rows(pipe, "q60")] == [2 * 11, 2 * 12, 2 * 7]
    assert [n for _, n in rows(pipe, "q30")] == [12, 12, 12, 2]
    assert [n for _, n in rows(pipe, "q1")] == [2] * 19
    assert pipe.db.invoke("q1").complete_from_us == BEGAN_US + 60 * MINUTE_US


def test_a_late_reading_of_a_time_that_is_rolled_up_counts(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes("WITH (retention = '10 MINUTES', time = 'valid', out_of_order = 'accept')")
    pipe.db.execute(CLIMATE)
    pipe.db.execute(f"CREATE QUERY q AS {LAST_DAY}")

    pipe.clock.advance(60 * MINUTE_US)

    def push(minute: float, value: float) -> None:
        ts = format_timestamp(BEGAN_US + int(minute * MINUTE_US))
        assert not pipe.db.push("probes", [{"id": 1, "value": value, "ts": ts}]).refused

    for minute in (0, 1, 2, 3, 13.5):
        push(minute, 1.0)
    forget(pipe)
    assert held_by(pipe).position == 4
    push(3.6, 3.0)  # of a minute that is rolled up already
    forget(pipe)
    assert rows(pipe) == [("north", 6, 8 / 6)]
    push(30, 1.0)
    push(31, 1.0)
    forget(pipe)
    assert held_by(pipe).position == 6 and rows(pipe) == [("north", 8, 10 / 8)]


def test_followers_are_told_changes_of_the_whole_window(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 1 DAY) END (NOW)")
    pipe.engine.drain()
    following = pipe.db.subscribe("q", changes=True)
    live(pipe, 45)
    told = []
    while (event := following.next(0)) is not None:
        told += event.table.to_pylist()
    plus = [row["n"] for row in told if row["op"] == "+"]
    assert plus == sorted(plus) and plus[-1] == 18


def test_aggregates_with_windows_of_their_own_use_it_too(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute(
        "CREATE QUERY q AS SELECT SUM(value) AS day, SUM(value, 100 MINUTES) AS late, COUNT(*) AS n FROM probes"
        " BEGIN (NOW - 1 DAY) END (NOW)"
    )
    live(pipe, 150)
    found = pipe.db.invoke("q")
    # An hour and forty minutes ago was 07:50, and 08:00 is where minutes begin.
    assert found.table.to_pylist() == [{"day": 120.0, "late": 4.0 * 19, "n": 60}]
    assert found.complete_from_us == BEGAN_US + 60 * MINUTE_US
    once = pipe.db.execute(
        "SELECT SUM(value) AS day, SUM(value, 100 MINUTES) AS late, COUNT(*) AS n FROM probes BEGIN (NOW - 1 DAY) END (NOW)"
    )
    assert once.table.equals(found.table) and once.complete_from_us == found.complete_from_us
    assert once.notices == found.notices


def test_rollups_are_listed_described_and_asked_about_in_sql(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    live(pipe, 30)
    shown = pipe.db.execute("SHOW ROLLUPS LIKE 'cli%'").table.to_pylist()
    assert [(row["every"], row["keep"]) for row in shown] == [("1m", "1h"), ("1h", "365d"), ("1d", "for ever")]
    assert shown[0]["readings"] == held_by(pipe).position and shown[0]["error"] is None
    assert pipe.db.system.table("penstock.rollups").column("sql").to_pylist()[0].startswith("SELECT place, COUNT(*)")
    for statement, condition in (
        ("CREATE TABLE climate (id INT PRIMARY KEY)", "already_exists"),
        ("CREATE QUERY climate AS SELECT value FROM probes", "already_exists"),
        (CLIMATE, "already_exists"),
        (CLIMATE.replace("climate", "probes", 1), "already_exists"),
        ("DROP ROLLUP weather", "rollup_not_found"),
        ("EXPLAIN weather", "query_not_found"),
    ):
        with pytest.raises(PenstockError) as refused:
            pipe.db.execute(statement)
        assert refused.value.condition == condition, statement
    assert pipe.db.execute(CLIMATE.replace("ROLLUP", "ROLLUP IF NOT EXISTS")).done == "CREATE ROLLUP"
    assert pipe.db.execute("DROP ROLLUP IF EXISTS weather").done == "DROP ROLLUP"


def test_a_question_that_is_asked_once_reaches_back_as_well(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    live(pipe, 150)
    found = pipe.db.execute(LAST_DAY)
    assert [tuple(row.values()) for row in found.table.to_pylist()] == [("north", 30, 1.0), ("south", 30, 3.0)]
    assert found.notices[0].startswith("rolled up: 2025-11-15T07:00:00Z to 2025-11-15T08:00:00Z")
    found = pipe.db.execute(
        "SELECT window_start, SUM(value) AS s, place FROM probes WHERE place <> 'east' GROUP BY place, TUMBLE(1 HOUR)"
        " ORDER BY s DESC, 1 LIMIT 3 OFFSET 1"
    )
    assert [(row["s"], row["place"]) for row in found.table.to_pylist()] == [
        (33.0, "south"),
        (21.0, "south"),
        (12.0, "north"),
    ]
    found = pipe.db.execute("SELECT DISTINCT place FROM probes BEGIN (NOW - 1 DAY) END (NOW - 1 HOUR) ORDER BY 1 DESC")
    assert found.table.to_pylist() == [{"place": "south"}, {"place": "north"}] and found.rolled_up is not None
    found = pipe.db.execute("SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 139 MINUTES) END (NOW)")
    assert found.table.to_pylist() == [{"n": 2 * 19}] and found.complete_from_us == BEGAN_US + 60 * MINUTE_US
    told = "\n".join(pipe.db.execute(f"EXPLAIN {LAST_DAY}").table.column("plan").to_pylist())
    assert 'before the log begins: rollup "climate"' in told and "no Spark job" in told
    told = "\n".join(pipe.db.execute(f"EXPLAIN ANALYZE {LAST_DAY}").table.column("plan").to_pylist())
    assert "answered from a rollup and the log" in told and "rows: 2" in told
    # What the log has alone, and what no rollup says, is Spark's; there is none here.
    for sql in (
        "SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 5 MINUTES) END (NOW)",
        "SELECT MEDIAN(value) AS m FROM probes BEGIN (NOW - 1 DAY) END (NOW)",
    ):
        with pytest.raises(PenstockError) as refused:
            pipe.db.execute(sql)
        assert refused.value.condition == "not_ready"


def test_the_finest_rollup_that_reaches_back_is_used_else_the_one_that_has_most(pipe: Pipe) -> None:
    pipe.db.execute("CREATE ROLLUP fine ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 40 MINUTES")
    pipe.db.execute("CREATE ROLLUP coarse ON probes AS SELECT COUNT(*) EVERY 5 MINUTES")
    for name, minutes in (("near", 33), ("far", 1000)):
        pipe.db.execute(
            f"CREATE QUERY {name} AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - {minutes} MINUTES) END (NOW)"
        )
    live(pipe, 150)
    for name, rollup, count in (("near", "fine", 7), ("far", "coarse", 30)):
        found = pipe.db.invoke(name)
        assert found.table.to_pylist() == [{"n": 2 * count}]
        assert all(f'from "{rollup}"' in notice for notice in found.notices) and found.notices


def test_a_cycle_whose_readings_were_rolled_up_with_later_ones_is_gone(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes("WITH (retention = '10 MINUTES', time = 'valid', out_of_order = 'accept')")
    pipe.db.execute(CLIMATE)
    pipe.db.execute(f"CREATE QUERY q AS {LAST_DAY}")
    pipe.clock.advance(120 * MINUTE_US)
    cycles = []
    for minute in (0, 1, 2, 100, 101):
        ts = format_timestamp(BEGAN_US + minute * MINUTE_US)
        pipe.db.push("probes", [{"id": 1, "value": 1.0, "ts": ts}])
        pipe.engine.drain()
        cycles.append(pipe.db.standing.store.cycle)
    forget(pipe)
    assert rows(pipe) == [("north", 5, 1.0)] and held_by(pipe).position == 3
    assert pipe.db.standing.invoke("q", cycles[3]).table.to_pylist()[0]["n"] == 4
    with pytest.raises(PenstockError) as refused:
        pipe.db.standing.invoke("q", cycles[1])
    assert refused.value.condition == "cycle_gone"
