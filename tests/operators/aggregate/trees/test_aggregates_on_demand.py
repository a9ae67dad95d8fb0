"""Aggregates over a query's answer: what trees say is what the rows say that Spark SQL would be given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.clock import SECOND
from tests.support.asked_answers import World
from tests.support.examples import seeds
from tests.support.join_life import PAIRS, Life
from tests.support.pipe import Pipe

WINDOWS = (
    "",
    "BEGIN (NOW - 5 SECONDS) END (NOW)",
    "BEGIN (NOW - 1 MINUTE) END (NOW - 20 SECONDS)",
    "BEGIN ('2025-11-15 07:00:05Z') END (NOW)",
)


# The first two run every line of our code that any of six runs.
@pytest.mark.parametrize("seed", seeds(2, soak=6))
@pytest.mark.parametrize(
    "own",
    [
        "WHERE x > 0.5 BEGIN (NOW - 10 SECONDS) END (NOW)",
        "WHERE place = 'north' AND n > 0",
        "WHERE x > 0 BEGIN (LAST 20 ROWS)",
    ],
)
def test_any_window_of_an_answer_is_what_spark_would_be_given(pipe: Pipe, own: str, seed: int) -> None:
    print("seed", seed)
    world = World(pipe, seed)
    world.push(40)
    pipe.engine.drain()
    pipe.db.execute(f"CREATE QUERY seen AS SELECT x, n, big, word, ts FROM probes {own}")
    pipe.engine.drain()
    most = 0
    for turn in range(12):
        world.push(world.rng.choice([1, 5, 80]), late_s=0.3)
        pipe.engine.cycle()
        for window in world.rng.sample(WINDOWS, 2):
            most = max(most, world.check(window))
        if turn == 6:
            pipe.restart()
    assert most > 20


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path / "data")
    yield made
    made.db.stop()


@pytest.mark.parametrize("span", ["BEGIN (NOW - 5 SECONDS) END (NOW)", "", "BEGIN (NOW - 1 HOUR) END (NOW - 1 SECOND)"])
def test_any_window_of_a_joins_answer_is_what_its_pairs_are(life: Life, span: str) -> None:
    life.push()
    life.execute(f"CREATE QUERY pairs AS SELECT a.n AS a, b.n AS b {PAIRS} {span}")
    start = life.db.definition("pairs").start_us or 0
    asked = "SELECT COUNT(*) AS n, SUM(a) AS a, MAX(b) AS b, MIN(a + b) AS both FROM pairs"
    most = 0
    for _ in range(8):
        life.push()
        now = life.now()
        own = {"": (start, now), "BEGIN (NOW - 5 SECONDS) END (NOW)": (now - 5 * SECOND, now)}
        low, high = own.get(span, (now - 3600 * SECOND, now - SECOND))
        inside = [p for p in life.pairs() if low <= min(p[0], p[2]) and max(p[0], p[2]) <= high]
        readers = {
            "": (low, high),
            "BEGIN (NOW - 2 SECONDS) END (NOW)": (now - 2 * SECOND, now),
            "BEGIN (NOW - 4 SECONDS) END (NOW - 500 MILLISECONDS)": (now - 4 * SECOND, now - SECOND // 2),
        }
        for reader, (first, last) in readers.items():
            rows = [p for p in inside if first <= max(p[0], p[2]) <= last]
            (found,) = life.db.execute(f"{asked} {reader}").table.to_pylist()
            assert found == {
                "n": len(rows),
                "a": sum(p[1] for p in rows) if rows else None,
                "b": max((p[3] for p in rows), default=None),
                "both": min((p[1] + p[3] for p in rows), default=None),
            }
            most = max(most, len(rows))
    assert most > 50
    assert life.runner.asked == 0


def test_a_join_that_reads_its_history_anew_is_asked_of_its_own_rows_afterwards(life: Life) -> None:
    life.push()
    life.execute(f"CREATE QUERY pairs AS SELECT a.n AS a, b.n AS b {PAIRS} BEGIN (NOW - 1 SECOND) END (NOW)")
    life.push()
    before = life.db.execute("SELECT COUNT(*) AS n FROM pairs").table.to_pylist()
    life.execute("ALTER QUERY pairs SET BEGIN (NOW - 1 HOUR)")
    after = life.db.execute("SELECT COUNT(*) AS n FROM pairs").table.to_pylist()
    low = life.now() - SECOND
    assert before == [{"n": sum(min(p[0], p[2]) >= low and max(p[0], p[2]) <= life.now() for p in life.pairs())}]
    assert after == [{"n": sum(max(p[0], p[2]) <= life.now() for p in life.pairs())}]
    assert life.runner.asked == 0


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT word, COUNT(*) FROM seen GROUP BY word",
        "SELECT COUNT(*) FROM seen WHERE n > 0",
        "SELECT COUNT(DISTINCT n) FROM seen",
        "SELECT SUM(DISTINCT n) FROM seen",
        "SELECT COUNT(*) FILTER (WHERE n > 0) FROM seen",
        "SELECT SUM(price) FROM seen",
        "SELECT MAX(word) FROM seen",
        "SELECT STDDEV(x) FROM seen",
        "SELECT COUNT(*) FROM seen HAVING COUNT(*) > 3",
        "SELECT COUNT(*) FROM seen LIMIT 1",
        "SELECT COUNT(*), (SELECT MAX(n) FROM probes) FROM seen",
        "SELECT COUNT(*) FROM seen a, seen b",
        "SELECT COUNT(*) FROM probes",
        "SELECT MAX(c) FROM (SELECT COUNT(*) AS c FROM seen) q",
    ],
)
def test_whatever_else_is_asked_runs_as_spark_sql(seen: World, asked: str) -> None:
    with pytest.raises(AssertionError, match="Spark was asked"):
        seen.pipe.db.execute(asked)
    told = "\n".join(r["plan"] for r in seen.pipe.db.execute(f"EXPLAIN {asked}").table.to_pylist())
    assert told.startswith("Spark SQL: asked once")


def test_explain_says_that_no_spark_job_runs(seen: World) -> None:
    asked = "SELECT COUNT(*), MAX(x) - MIN(x) AS spread FROM seen BEGIN (NOW - 5 MINUTES) END (NOW)"
    told = [r["plan"] for r in seen.pipe.db.execute(f"EXPLAIN ANALYZE {asked}").table.to_pylist()]
    assert told[:4] == [
        'aggregates on demand over the answers of query "seen": a tree in time order, no Spark job',
        "  window: BEGIN (NOW - 5m) END (NOW)",
        "  output: count BIGINT = count(*), spread DOUBLE = max(x) - min(x)",
        "rows: 1",
    ]
    assert seen.runs == 0


def test_rows_that_retention_has_taken_are_in_no_aggregate(seen: World) -> None:
    seen.check()
    table = seen.pipe.db.catalog_table("probes").id
    for floor in (10, 70):
        seen.pipe.db.catalog.retain(table, floor)
        seen.pipe.engine.drain()
        with seen.pipe.db.standing.locked() as store:
            assert store.state.retention(table) == floor
        assert seen.check() <= 120 - floor


def test_a_query_made_anew_under_the_same_name_is_another_one(seen: World) -> None:
    before = seen.check()
    seen.pipe.db.execute("DROP QUERY seen")
    seen.pipe.db.execute("CREATE QUERY seen AS SELECT x, n, big, word, ts FROM probes WHERE n > 5")
    seen.pipe.engine.drain()
    assert 0 < seen.check() < before


def test_a_paused_query_is_read_all_the_same(seen: World) -> None:
    seen.check()
    seen.pipe.db.execute("ALTER QUERY seen PAUSE")
    seen.push(30)
    seen.pipe.engine.drain()
    seen.check()
    seen.pipe.db.execute("ALTER QUERY seen RESUME")
    seen.push(30)
    seen.pipe.engine.drain()
    seen.check()


def test_no_reading_yet_is_no_rows(world: World) -> None:
    world.pipe.db.execute("CREATE QUERY seen AS SELECT x, n, big, word, ts FROM probes")
    world.pipe.engine.drain()
    assert world.check() == 0
    assert world.check("BEGIN (NOW - 5 SECONDS) END (NOW)") == 0
