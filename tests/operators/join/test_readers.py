"""Queries that read a window join: each of its rows once, with its own time, one cycle later, and never the join again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.sql.plan import SparkPlan, plan_from_json
from tests.support.join_life import PAIRS, Life, micros, until

JOINED = f"CREATE QUERY pairs AS SELECT a.k, a.n AS a, b.n AS b {PAIRS}"


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path / "data")
    yield made
    made.db.stop()


def read_pairs(life: Life, window: str) -> None:
    """Two readers: Spark SQL, whose stand-in shows what it was given, and slices."""
    summary = "COUNT(*) AS n, SUM(a) AS a, SUM(b) AS b, MIN(ts_min) AS first, MAX(ts) AS last"
    life.execute(f"CREATE QUERY sliced AS SELECT {summary} FROM pairs {window}")
    life.execute(f"CREATE QUERY counted AS SELECT DISTINCT ON (a) a FROM pairs {window}")


def told(life: Life, name: str) -> list[tuple[int, int, int, int]]:
    """(earliest, latest, n of a, n of b) of the rows that a reader was given; slices of the same rows say the same."""
    rows = sorted((micros(r["ts_min"]), micros(r["ts"]), r["a"], r["b"]) for r in life.given(name))
    found = life.db.invoke("sliced")
    (summed,) = found.table.to_pylist()
    assert found.cycle == life.db.standing.store.cycle and summed["n"] == len(rows)
    if rows:
        times = (min(r[0] for r in rows), max(r[1] for r in rows))
        assert (micros(summed["first"]), micros(summed["last"])) == times
        assert (summed["a"], summed["b"]) == (sum(r[2] for r in rows), sum(r[3] for r in rows))
    return rows


def expected(life: Life, low: int, high: int, start: int = 0) -> list[tuple[int, int, int, int]]:
    rows = [(min(p[0], p[2]), max(p[0], p[2]), p[1], p[3]) for p in life.pairs()]
    return sorted(r for r in rows if low <= r[1] <= high and r[0] >= start)


def quiet_cycle(life: Life) -> None:
    """A reader sees a cycle's rows in the next one."""
    life.clock.advance(2 * SECOND)
    life.engine.cycle()


def test_a_reader_gets_rows_by_their_own_time_whatever_the_window_of_the_join(life: Life) -> None:
    life.push()
    life.execute(f"{JOINED} BEGIN (NOW - 3 SECONDS) END (NOW)")
    read_pairs(life, "BEGIN (NOW - 8 SECONDS) END (NOW)")
    start = life.db.definition("pairs").start_us
    assert start is not None
    for _ in range(4):
        life.push()
        quiet_cycle(life)
        life.settled("counted")
        assert told(life, "counted") == expected(life, life.now() - 8 * SECOND, life.now(), start - 3 * SECOND)
    assert len(told(life, "counted")) > 100
    plan = plan_from_json(life.db.definition("counted").plan)
    assert isinstance(plan, SparkPlan) and [r.kind for r in plan.relations] == ["query"]


def test_a_row_comes_one_cycle_later(life: Life) -> None:
    life.execute(JOINED)
    life.push()
    read_pairs(life, "BEGIN ('2020-01-01') END (NOW)")
    quiet_cycle(life)
    life.settled("counted")
    before = told(life, "counted")
    ts = life.now()
    life.db.push("left_side", [{"id": 1, "ts": ts, "k": 3, "n": 800}])
    life.rows["left_side"].append((ts, 3, 800))
    life.engine.cycle()
    life.settled("counted")
    assert told(life, "counted") == before
    quiet_cycle(life)
    life.settled("counted")
    assert told(life, "counted") == expected(life, 0, life.now()) != before


def test_results_are_kept_as_far_as_a_reader_reaches(life: Life) -> None:
    life.set_intervals(trim_cycles=1, snapshot_cycles=3)
    life.execute(f"{JOINED} BEGIN (NOW - 1 SECOND) END (NOW)")
    read_pairs(life, "BEGIN (NOW - 9 SECONDS) END (NOW)")
    for _ in range(8):
        life.push(10)
    quiet_cycle(life)
    life.settled("counted")
    assert told(life, "counted") == expected(life, life.now() - 9 * SECOND, life.now())
    life.restart()
    life.push(10)
    quiet_cycle(life)
    life.settled("counted")
    assert told(life, "counted") == expected(life, life.now() - 9 * SECOND, life.now())
    results = life.db.standing.store.joins.queries[life.db.definition("pairs").id].results
    assert results is not None and len(results.chunks) < results.count


def test_a_reader_that_comes_late_says_since_when_it_has_everything(life: Life) -> None:
    life.set_intervals(trim_cycles=1)
    life.execute(f"{JOINED} BEGIN (NOW - 1 SECOND) END (NOW)")
    for _ in range(8):
        life.push(10)
    came = life.now()
    read_pairs(life, "BEGIN (NOW - 20 SECONDS) END (NOW)")
    life.push(10)
    quiet_cycle(life)
    result = life.settled("counted")
    assert result.complete_from_us == life.db.invoke("sliced").complete_from_us == came - SECOND
    since = came - SECOND
    complete = expected(life, since + 2 * SECOND, life.now())
    assert [r for r in told(life, "counted") if r[1] >= since + 2 * SECOND] == complete


def test_a_reader_whose_window_is_made_wider_again_sees_what_is_still_kept(life: Life) -> None:
    life.set_intervals(trim_cycles=1)
    life.execute(JOINED)
    read_pairs(life, "BEGIN (NOW - 20 SECONDS) END (NOW)")
    for seconds in (20, 1, 20, 3):
        for name in ("sliced", "counted"):
            life.execute(f"ALTER QUERY {name} SET BEGIN (NOW - {seconds} SECONDS) END (NOW)")
        for _ in range(5):
            life.push(10)
        quiet_cycle(life)
        life.settled("counted")
        # The join itself keeps everything from its registration on.
        assert told(life, "counted") == expected(life, life.now() - seconds * SECOND, life.now())
    assert len(life.pairs()) > len(told(life, "counted")) > 20


def test_rows_without_a_partner_are_read_too(life: Life) -> None:
    life.execute(
        "CREATE QUERY pairs AS SELECT a.n AS a, b.n AS b FROM left_side a LEFT JOIN right_side b"
        " ON a.k = b.k AND b.n < 5 WINDOW(a,b) = 1 SECOND"
    )
    life.execute("CREATE QUERY counted AS SELECT COUNT(*) AS n FROM pairs WHERE b IS NULL")
    life.push()
    quiet_cycle(life)
    life.settled("counted")
    near = [(a, b) for a in life.rows["left_side"] for b in life.rows["right_side"] if a[1] == b[1] and b[2] < 5]
    paired = {a for a, b in near if abs(a[0] - b[0]) <= SECOND}
    alone = [a[:1] + a[2:] for a in life.rows["left_side"] if a not in paired and a[0] + SECOND < life.now()]
    found = [(micros(r["ts"]), r["a"]) for r in life.given("counted") if r["b"] is None]
    assert sorted(found) == sorted(alone) and len(alone) > 5


def test_a_reader_keeps_what_a_paused_join_has_told_and_waits_for_what_it_missed(life: Life) -> None:
    life.execute(JOINED)
    read_pairs(life, "BEGIN ('2020-01-01') END (NOW)")
    life.push()
    quiet_cycle(life)
    life.settled("counted")
    before = told(life, "counted")
    life.execute("ALTER QUERY pairs PAUSE")
    life.push()
    life.settled("counted")
    assert set(before) <= set(told(life, "counted")) <= set(expected(life, 0, life.now()))
    life.execute("ALTER QUERY pairs RESUME")
    life.push()
    quiet_cycle(life)
    life.settled("counted")
    assert told(life, "counted") == expected(life, 0, life.now())


def test_a_reader_fails_with_the_join_that_it_reads(life: Life) -> None:
    life.execute("CREATE FUNCTION odd(a INT) RETURNS BOOLEAN LANGUAGE python AS $$ return 1 // (a - a) > 0 $$")
    life.execute(f"{JOINED} AND odd(b.n)")
    life.execute("CREATE QUERY counted AS SELECT COUNT(*) AS n FROM pairs")
    life.push()
    until(lambda: life.db.query("counted")["state"] == "FAILED")
    with pytest.raises(PenstockError, match="odd"):
        life.db.invoke("counted")


def test_a_join_that_is_read_can_be_dropped_only_with_its_readers(life: Life) -> None:
    life.execute(JOINED)
    life.execute("CREATE QUERY counted AS SELECT COUNT(*) AS n FROM pairs")
    with pytest.raises(PenstockError, match="counted"):
        life.execute("DROP QUERY pairs")
    with pytest.raises(PenstockError, match="counted"):
        life.execute("ALTER QUERY pairs SET BEGIN (LAST 5 ROWS)")
    life.execute("DROP QUERY pairs CASCADE")
    assert not life.db.catalog.state.queries


def test_a_join_whose_ts_is_another_time_is_not_read_like_a_stream(life: Life) -> None:
    life.execute(f"CREATE QUERY pairs AS SELECT a.ts, b.n AS b {PAIRS}")
    with pytest.raises(PenstockError, match='calls something else "ts"') as caught:
        life.execute("CREATE QUERY counted AS SELECT COUNT(*) AS n FROM pairs")
    assert caught.value.hint is not None and "another name" in caught.value.hint
    life.execute(f"CREATE QUERY timed AS SELECT ts, b.n AS b {PAIRS}")
    life.execute("CREATE QUERY counted AS SELECT COUNT(*) AS n FROM timed")
