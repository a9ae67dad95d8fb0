"""Aggregates over a query's answer: what trees say is what the rows say that Spark SQL would be given."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.pipeline.history import HistoryReader
from penstock.pipeline.spark_sql import SparkRunner
from penstock.queries import answer_trees
from penstock.queries.moments import moment_of
from penstock.queries.statements.asking import plan_of
from penstock.sql import statements as st
from penstock.sql.parse import parse_script
from penstock.sql.plan import SparkPlan
from tests.pipeline_pure.test_joins_below import PAIRS, Life
from tests.pipeline_pure.world import BEGAN_US, Pipe

TABLE = (
    "CREATE TABLE probes (id INT PRIMARY KEY, place TEXT,"
    " reading STREAM (x DOUBLE, n INT, big BIGINT, word TEXT, price DECIMAL(8, 2))) WITH (time = 'valid', out_of_order = 'accept')"
)
ASKED = (
    "SELECT COUNT(*) AS all, COUNT(x) AS known, SUM(x), AVG(x), MIN(x), MAX(x), SUM(n) AS sn, AVG(n) AS an,"
    " MAX(n) - MIN(n) AS spread, SUM(big) AS sb, MIN(big) AS lb, MAX(ts) AS last, COUNT(word) AS words,"
    " SUM(n + 1) / COUNT(*) AS shifted FROM seen"
)


@pytest.fixture
def world(pipes: Callable[..., Pipe]) -> World:
    return World(pipes())


class World:
    """A stream of readings with gaps and late ones, and what Spark would read of it."""

    def __init__(self, pipe: Pipe, seed: int = 1) -> None:
        self.pipe = pipe
        self.rng = random.Random(seed)
        self.now = BEGAN_US
        self.runs = 0
        pipe.db.execute(TABLE)
        pipe.db.execute("INSERT INTO probes VALUES (1, 'north', NULL), (2, 'south', NULL), (3, 'north', NULL)")

        def run(plan: SparkPlan, start_us: int | None) -> Any:
            self.runs += 1
            raise AssertionError("Spark was asked")

        pipe.db.spark_queries.run = run  # type: ignore[method-assign]

    def push(self, count: int, late_s: float = 0.1) -> None:
        rng, rows = self.rng, []
        for _ in range(count):
            self.now += rng.randrange(200_000)
            late = int(rng.random() * 20 * SECOND) if rng.random() < late_s else 0
            rows.append({"id": rng.randint(1, 3), "ts": self.now - late, **self.values()})
        self.pipe.clock.advance(SECOND)
        self.pipe.db.push("probes", rows)

    def values(self) -> dict[str, Any]:
        rng = self.rng
        known = {
            "x": rng.choice(
                [rng.gauss(0, 1) * 10 ** rng.randint(-6, 6), rng.random(), float(rng.randint(0, 9))]
                if rng.random() < 0.99
                else [math.nan, math.inf, -math.inf]
            ),
            "n": rng.choice([rng.randint(-5, 5), rng.randint(-(2**31), 2**31 - 1)]),
            "big": rng.choice([rng.randint(-5, 5), rng.randint(-(2**63), 2**63 - 1)]),
            "word": rng.choice(["a", "b"]),
            "price": "1.50",
        }
        return {name: value if rng.random() > 0.1 else None for name, value in known.items()}

    def ask(self, sql: str = ASKED) -> dict[str, Any]:
        row: dict[str, Any]
        (row,) = self.pipe.db.execute(sql).table.to_pylist()
        return row

    def read(self, sql: str = ASKED) -> list[dict[str, Any]]:
        """The rows that Spark's plan of the question reads, as its own source gives them."""
        (statement,) = parse_script(sql)
        assert isinstance(statement, st.Select)
        plan = plan_of(self.pipe.db, statement, standing=False)
        assert isinstance(plan, SparkPlan)
        with self.pipe.db.standing.locked() as store:
            moment = moment_of(plan, store, None)
        session: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
        (relation,) = plan.relations
        request, _ = SparkRunner(session, self.pipe.db.folder, 1)._request(relation, "x n big word ts price", moment)
        request = replace(request, columns=("x", "n", "big", "word", "ts"))
        reader = HistoryReader({"request": request.to_option()})
        return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]

    def check(self, window: str = "") -> int:
        found, rows = self.ask(f"{ASKED} {window}"), self.read(f"{ASKED} {window}")
        same(found, expected(rows))
        assert self.runs == 0
        return len(rows)


def expected(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The slow way; sums of integers wrap as Spark's do."""
    x, n, big = ([r[c] for r in rows if r[c] is not None] for c in ("x", "n", "big"))
    total = math.fsum(v for v in x if math.isfinite(v)) if all(map(math.isfinite, x)) else sum(x)
    known = [v for v in x if v == v]
    shifted = sum(v + 1 for v in n) if n else None
    return {
        "all": len(rows),
        "known": len(x),
        "sum": total if x else None,
        "avg": total / len(x) if x else None,
        "min": (min(known) if known else math.nan) if x else None,
        "max": (max(known) if len(known) == len(x) else math.nan) if x else None,
        "sn": sum(n) if n else None,
        "an": sum(n) / len(n) if n else None,
        "sb": (sum(big) + 2**63) % 2**64 - 2**63 if big else None,
        "lb": min(big, default=None),
        "last": max((r["ts"] for r in rows), default=None),
        "words": sum(r["word"] is not None for r in rows),
        "spread": wrapped(max(n) - min(n)) if n else None,
        "shifted": int(shifted / len(rows)) if shifted is not None and all(v < 2**31 - 1 for v in n) else ...,
    }


def wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        if value is ...:
            continue
        if isinstance(value, float):
            assert found[name] == pytest.approx(value, rel=1e-12, abs=1e-12, nan_ok=True), name
        else:
            assert found[name] == value, name


WINDOWS = (
    "",
    "BEGIN (NOW - 5 SECONDS) END (NOW)",
    "BEGIN (NOW - 1 MINUTE) END (NOW - 20 SECONDS)",
    "BEGIN ('2025-11-15 07:00:05Z') END (NOW)",
)


@pytest.mark.parametrize("seed", range(6))
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
            pipe.db.spark_queries.run = pytest.fail  # type: ignore[method-assign,assignment]
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


@pytest.fixture
def seen(world: World) -> World:
    world.push(60, late_s=0)
    world.pipe.db.execute("CREATE QUERY seen AS SELECT x, n, big, word, price, ts FROM probes WHERE n <> 0")
    world.pipe.engine.drain()
    world.push(60)
    world.pipe.engine.cycle()
    return world


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


def trees(world: World) -> dict[Any, Any]:
    return world.pipe.db.on_demand.trees._trees


def test_a_tree_is_kept_and_extended_by_what_came_since(seen: World) -> None:
    asked = "SELECT SUM(x) FROM seen"
    seen.ask(asked)
    (kept,) = trees(seen).values()
    rows = len(kept.tree)
    seen.push(50)
    seen.pipe.engine.drain()
    seen.ask(asked)
    assert list(trees(seen).values()) == [kept] and len(kept.tree) > rows
    query = seen.pipe.db.definition("seen").id
    assert seen.pipe.db.query("seen")["memory"] >= kept.tree.nbytes == seen.pipe.db.on_demand.memory_of(query)


def test_a_tree_goes_with_its_query_and_when_nobody_asks(seen: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen.ask("SELECT SUM(x) FROM seen")
    seen.push(1)
    seen.pipe.engine.cycle()
    assert len(trees(seen)) == 1
    monkeypatch.setattr(answer_trees, "UNUSED_S", -1.0)
    seen.push(1)
    seen.pipe.engine.cycle()
    assert not trees(seen)
    monkeypatch.undo()
    seen.ask("SELECT SUM(x) FROM seen")
    seen.pipe.db.execute("DROP QUERY seen")
    seen.pipe.engine.drain()
    assert not trees(seen)


def test_rows_that_nobody_asks_for_any_more_leave_the_tree(seen: World) -> None:
    for _ in range(20):
        seen.push(100)
        seen.pipe.engine.drain()
        seen.check("BEGIN (NOW - 5 SECONDS) END (NOW)")
    assert max(len(t.tree) for t in trees(seen).values()) < 500


def test_trees_keep_to_their_memory_and_spark_answers_what_is_too_large(seen: World) -> None:
    on_demand = seen.pipe.db.on_demand
    columns = ["x", "n", "big", "x + 1", "n + 1"]
    for column in columns:
        seen.ask(f"SELECT SUM({column}) FROM seen")
    one = max(t.tree.nbytes for t in trees(seen).values())
    on_demand.trees.most_bytes = 3 * one
    for column in columns:
        seen.ask(f"SELECT SUM({column}) FROM seen")
        assert sum(t.tree.nbytes for t in trees(seen).values()) <= 3 * one
    assert {str(column) for _, column in trees(seen)} >= {"add(n, 1)", "add(x, 1.0)"}
    on_demand.trees.most_bytes = 100
    seen.pipe.db.on_demand.trees._trees.clear()
    with pytest.raises(AssertionError, match="Spark was asked"):
        seen.ask("SELECT SUM(x) FROM seen")


def test_a_history_too_long_to_evaluate_is_left_to_spark(pipes: Callable[..., Pipe]) -> None:
    world = World(pipes(history_max_rows=50))
    for _ in range(2):
        world.push(100, late_s=0)
        world.pipe.engine.drain()
    # The file of its first reading is read by cycles; the one before is not.
    world.pipe.db.execute("CREATE QUERY seen AS SELECT x, n, big, word, ts FROM probes")
    world.pipe.engine.drain()
    assert world.ask("SELECT COUNT(*) AS n FROM seen BEGIN (NOW - 0 SECONDS) END (NOW - 0 SECONDS)") == {"n": 1}
    with pytest.raises(AssertionError, match="Spark was asked"):
        world.ask()


def test_a_question_asked_again_is_not_planned_again_until_a_definition_changes(
    seen: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "SELECT COUNT(*) AS n, MAX(x) AS most FROM seen"
    before = seen.ask(asked)
    with monkeypatch.context() as patch:
        patch.setattr("penstock.queries.execute.parse_script", pytest.fail)
        assert seen.ask(asked) == before
        seen.push(40)
        seen.pipe.engine.drain()
        seen.push(1)
        seen.pipe.engine.drain()
        assert seen.ask(asked)["n"] > before["n"]
    seen.pipe.db.execute("DROP QUERY seen")
    with pytest.raises(PenstockError, match="seen") as caught:
        seen.ask(asked)
    assert caught.value.condition == "table_not_found" and caught.value.sql == asked


def test_parameters_are_no_part_of_a_text_that_is_known(seen: World) -> None:
    asked = "SELECT SUM(n + $1) - SUM(n) AS d, COUNT(n) AS c FROM seen"
    for step in (1, 5):
        (row,) = seen.pipe.db.execute(asked, [step]).table.to_pylist()
        assert row["d"] % 2**32 == step * row["c"] % 2**32


def test_answers_that_stand_in_sheets_are_read_from_there_and_without_them_all_the_same(world: World) -> None:
    db = world.pipe.db
    window = "BEGIN (NOW - 1 MINUTE) END (NOW)"
    db.register([(f"q{n}", f"SELECT x FROM probes WHERE n >= {-n} {window}") for n in range(80)])
    db.register([("seen", f"SELECT x, n, big, word, ts FROM probes WHERE n > -3 {window}")])
    world.pipe.engine.drain()
    for _ in range(4):
        world.push(700)
        world.pipe.engine.drain()
        world.check()
        short, long = (world.check(f"BEGIN (NOW - {d}) END (NOW)") for d in ("20 SECONDS", "5 MINUTES"))
    assert 0 <= short < long
    sheets = list(db.folder.sheets.glob("*.sheet"))
    assert sheets
    for path in sheets:
        path.unlink()
    db.on_demand.trees._trees.clear()
    world.check()


def test_many_ask_at_once_while_rows_come(seen: World) -> None:
    failures: list[BaseException] = []
    going = threading.Event()

    def ask() -> None:
        try:
            while not going.is_set():
                row = seen.ask("SELECT COUNT(*) AS n, COUNT(n) AS m, SUM(n) - SUM(n) AS zero FROM seen")
                assert row["n"] == row["m"] and row["zero"] == 0
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        seen.push(40)
        seen.pipe.engine.drain()
    going.set()
    for thread in threads:
        thread.join()
    assert not failures
    seen.check()
