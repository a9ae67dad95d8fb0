"""What no kernel covers over a window join: the join runs in the cycle, and Spark gets its rows. A stand-in shows which."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.pipeline.handed import Handed, HandedReader
from penstock.queries.join_held import JoinHeld
from penstock.sql.plan import SparkPlan, plan_from_json
from tests.pipeline_pure.world import Pipe

ORIGIN = 1_700_000_000 * SECOND
PAIRS = "FROM left_side a, right_side b WINDOW(a,b) = 2 SECONDS WHERE a.k = b.k AND b.n < 900"
COUNTED = f"SELECT a.k, COUNT(*) AS n, MAX(b.n) AS most, MAX(ts) AS last {PAIRS} GROUP BY ROLLUP (a.k)"


class Runner:
    """In Spark's place: keeps the rows that it is given and answers how many they are."""

    def __init__(self) -> None:
        self.asked = 0
        self.given: dict[str, list[dict[str, Any]]] = {}
        self.in_files: dict[str, tuple[Path, ...]] = {}

    def run(self, plan: SparkPlan, _: Any, given: dict[str, pa.Table | Handed]) -> pa.Table:
        self.asked += 1
        for relation, handed in given.items():
            self.in_files[f"{plan.sql} {relation}"] = handed.files if isinstance(handed, Handed) else ()
            self.given[f"{plan.sql} {relation}"] = rows_of(handed).to_pylist()
        count = sum(rows_of(rows).num_rows for rows in given.values())
        return pa.table({name: pa.array([count]) for name, _ in plan.outputs})


def rows_of(given: pa.Table | Handed) -> pa.Table:
    """Rows as a worker of Spark gets them."""
    if isinstance(given, pa.Table):
        return given
    reader = HandedReader(given.options())
    schema = pa.schema([pa.field(f.name, f.type.to_arrow()) for f in given.fields])
    return pa.Table.from_batches([b for task in reader.partitions() for b in reader.read(task)], schema)


class Life(Pipe):
    """Two streams with keys, a join over them, and what it means by definition."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.runner = Runner()
        self.rows: dict[str, list[tuple[int, int, int]]] = {"left_side": [], "right_side": []}
        self._rng = np.random.default_rng(5)
        super().__init__(folder, **{"cycles_keep": 4, **settings})
        for table in self.rows:
            self.db.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, zone INT, r STREAM (k INT, n INT))"
                " WITH (time = 'valid', out_of_order = 'accept', max_ahead = '100000 DAYS')"
            )
            self.db.execute(f"INSERT INTO {table} VALUES (1, 1, NULL)")
        self.engine.drain()

    def execute(self, sql: str) -> None:
        """A statement, with the cycle that takes it in."""
        self.db.execute(sql)
        self.engine.drain()

    def open(self) -> None:
        super().open()
        self.db.spark_queries._runner = lambda: self.runner  # type: ignore[assignment,return-value]

    def push(self, count: int = 30, step_us: int = SECOND // 10) -> None:  # type: ignore[override]
        for table, rows in self.rows.items():
            first = len(rows)
            late = self._rng.integers(0, 3, count) * SECOND
            made = [
                (ORIGIN + (first + i) * step_us - int(late[i]), int(self._rng.integers(0, 5)), first + i)
                for i in range(count)
            ]
            rows += made
            self.db.push(table, [{"id": 1, "ts": ts, "k": k, "n": n} for ts, k, n in made])
        self.engine.drain()

    def pairs(self) -> list[tuple[int, int, int, int]]:
        """(ts a, n a, ts b, n b) of every pair that the join means."""
        return sorted(
            (at, an, bt, bn)
            for at, ak, an in self.rows["left_side"]
            for bt, bk, bn in self.rows["right_side"]
            if ak == bk and abs(at - bt) <= 2 * SECOND and bn < 900
        )

    def now(self) -> int:
        return min(max(ts for ts, _, _ in rows) for rows in self.rows.values())

    def settled(self, name: str) -> Any:
        """The answer of a query once it stands for the last cycle."""
        query = self.db.definition(name).id
        until(
            lambda: (
                (found := self.db.spark_queries._answers.get(query)) is not None
                and found.cycle == self.db.standing.store.cycle
            )
        )
        return self.db.invoke(name)

    def given(self, name: str) -> list[dict[str, Any]]:
        plan = plan_from_json(self.db.definition(name).plan)
        assert isinstance(plan, SparkPlan)
        return self.runner.given[f"{plan.sql} {plan.relations[0].name}"]


def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path / "data")
    yield made
    made.db.stop()


def last_times(life: Life, name: str) -> list[tuple[int, int]]:
    """(the latest time of a pair, n of b) of the rows below a query."""
    rows = life.given(name)
    return sorted((micros(max(r["a.ts"], r["b.ts"])), r["b.n"]) for r in rows)


def micros(value: Any) -> int:
    return int(value.timestamp()) * SECOND + value.microsecond


def test_spark_gets_the_pairs_inside_the_window_and_nothing_of_the_log(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN (NOW - 5 SECONDS) END (NOW)")
    for _ in range(4):
        life.push()
        life.settled("counted")
        low, high = life.now() - 5 * SECOND, life.now()
        inside = [p for p in life.pairs() if low <= min(p[0], p[2]) and max(p[0], p[2]) <= high]
        assert last_times(life, "counted") == sorted((max(p[0], p[2]), p[3]) for p in inside)
    assert len(inside) > 20


def test_the_join_below_lives_through_restarts_pauses_and_new_windows(life: Life) -> None:
    life.push()
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN ('2020-01-01') END (NOW)")
    life.push()
    life.restart()
    life.push()
    assert life.settled("counted").table["n"][0].as_py() == len(upto_now(life)) > 50
    life.execute("ALTER QUERY counted PAUSE")
    life.push()
    with pytest.raises(PenstockError, match="PAUSED"):
        life.db.invoke("counted")
    life.execute("ALTER QUERY counted RESUME")
    life.push()
    assert life.settled("counted").table["n"][0].as_py() == len(upto_now(life))
    life.execute("ALTER QUERY counted SET BEGIN (NOW - 4 SECONDS) END (NOW)")
    life.push()
    low = life.now() - 4 * SECOND
    expected = [p for p in upto_now(life) if min(p[0], p[2]) >= low]
    assert life.settled("counted").table["n"][0].as_py() == len(expected)


def upto_now(life: Life) -> list[tuple[int, int, int, int]]:
    return [p for p in life.pairs() if max(p[0], p[2]) <= life.now()]


def test_nothing_of_the_join_is_left_when_its_query_goes(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED}")
    life.push()
    life.settled("counted")
    life.execute("DROP QUERY counted")
    store, queries = life.db.standing.store, life.db.spark_queries
    assert not store.answers and not store.spark_plans
    until(lambda: not (queries._answers or queries._rows or queries._inputs))


def test_the_same_rows_are_not_evaluated_twice(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED}")
    life.push()
    before = life.settled("counted")
    asked = life.runner.asked
    life.db.push("left_side", [{"id": 1, "ts": life.now(), "k": 77, "n": 1}])
    life.engine.drain()
    after = life.settled("counted")
    assert after.cycle > before.cycle and life.runner.asked == asked


def test_a_subscriber_hears_of_new_values_and_not_of_cycles_without(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED}")
    life.push()
    life.settled("counted")
    subscription = life.db.subscribe("counted", changes=True)
    first = subscription.next(5.0)
    assert first is not None and first.table["op"].to_pylist() == ["+"]
    life.db.push("left_side", [{"id": 1, "ts": life.now(), "k": 77, "n": 1}])
    life.engine.drain()
    life.settled("counted")
    assert subscription.next(0.1) is None
    life.push()
    life.settled("counted")
    event = subscription.next(5.0)
    assert event is not None and event.table["op"].to_pylist() == ["-", "+"]
    assert event.table["n"].to_pylist() == [first.table["n"][0].as_py(), len(upto_now(life))]
    subscription.close()


def test_only_new_pairs_are_read_from_the_log(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[int] = []
    rows = JoinHeld.rows
    monkeypatch.setattr(JoinHeld, "rows", lambda held, ids: fetched.append(len(ids)) or rows(held, ids))
    life.execute(f"CREATE QUERY counted AS {COUNTED}")
    life.push()
    life.settled("counted")
    fetched.clear()
    before = len(life.given("counted"))
    life.push()
    life.settled("counted")
    assert last_times(life, "counted") == sorted((max(p[0], p[2]), p[3]) for p in upto_now(life))
    assert sum(fetched) == len(life.given("counted")) - before > 20


def test_rows_without_a_partner_come_up_to_what_stands_on_top(life: Life) -> None:
    life.execute(
        "CREATE QUERY lonely AS SELECT COUNT(*) AS n FROM left_side a LEFT JOIN right_side b ON a.k = b.k AND b.n < 5"
        " WINDOW(a,b) = 1 SECOND WHERE b.n IS NULL"
    )
    life.push()
    life.settled("lonely")
    near = [(a, b) for a in life.rows["left_side"] for b in life.rows["right_side"] if a[1] == b[1] and b[2] < 5]
    paired = {a for a, b in near if abs(a[0] - b[0]) <= SECOND}
    alone = [a for a in life.rows["left_side"] if a not in paired and a[0] + SECOND < life.now()]
    given = life.given("lonely")
    assert sum(r["b.n"] is None for r in given) == len(alone) > 5


def test_a_join_with_too_many_rows_below_says_so(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", handed_max_rows=10)
    try:
        life.execute(f"CREATE QUERY counted AS {COUNTED}")
        life.push()
        until(lambda: bool(life.db.spark_queries._errors))
        with pytest.raises(PenstockError, match=r"the join below has .* rows, more than 10") as caught:
            life.db.invoke("counted")
        assert caught.value.condition == "over_budget"
        life.execute("ALTER QUERY counted SET BEGIN (NOW - 200 MS) END (NOW)")
        until(lambda: not life.db.spark_queries._errors)
    finally:
        life.db.stop()


def test_a_function_that_fails_below_fails_the_query(life: Life) -> None:
    life.execute("CREATE FUNCTION odd(a INT) RETURNS BOOLEAN LANGUAGE python AS $$ return 1 // (a - a) > 0 $$")
    life.execute(f"CREATE QUERY counted AS SELECT COUNT(*) AS n {PAIRS} AND odd(b.n)")
    life.push()
    with pytest.raises(PenstockError, match="odd"):
        life.db.invoke("counted")
    until(lambda: life.db.query("counted")["state"] == "FAILED")


def test_a_query_is_described_with_both_of_its_parts(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED}")
    life.push()
    life.settled("counted")
    facts = life.db.query("counted")
    assert facts["runs"] == "window join, then Spark SQL" and facts["window"] == "BEGIN (START) END (NOW)"
    assert facts["reason"] == "the join is incremental; on top of it, grouping sets run as Spark SQL"
    text = "\n".join(life.db.execute("EXPLAIN counted").table["plan"].to_pylist())
    assert "window join of 2 streams" in text and "rows of the join" in text and "last step" in text
    assert life.db.catalog.state.dependents("table", "left_side")
