"""What no kernel covers over a window join: the join runs in the cycle, and Spark gets its rows. A stand-in shows which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.catalog.definition_checks import users_by_name
from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.operators.join.answer import JoinAt
from tests.support.join_life import COUNTED, PAIRS, Life, last_times, until, upto_now
from tests.support.watched import watched


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path / "data")
    yield made
    made.db.stop()


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


def test_nothing_of_the_join_is_left_when_its_query_goes(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED}")
    life.push()
    life.settled("counted")
    life.execute("DROP QUERY counted")
    store, queries = life.db.standing.store, life.db.evaluator
    assert not store.answers and not store.spark_plans
    until(lambda: not (store.evaluations.by_query or queries._rows or queries._inputs))


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
    first = subscription.next(60.0)
    assert first is not None and first.table["op"].to_pylist() == ["+"]
    life.db.push("left_side", [{"id": 1, "ts": life.now(), "k": 77, "n": 1}])
    life.engine.drain()
    life.settled("counted")
    assert subscription.next(0.1) is None
    life.push()
    life.settled("counted")
    event = subscription.next(60.0)
    assert event is not None and event.table["op"].to_pylist() == ["-", "+"]
    assert event.table["n"].to_pylist() == [first.table["n"][0].as_py(), len(upto_now(life))]
    subscription.close()


@pytest.fixture
def fetched() -> Iterator[list[int]]:
    """How many rows each look at a join has fetched; before `life`, whose thread makes these looks."""
    found: list[int] = []
    with watched(JoinAt.rows, tell=lambda given: found.append(len(given["ids"])), threads=True):
        yield found


def test_only_new_pairs_are_read_from_the_log(fetched: list[int], life: Life) -> None:
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
        failure = life.db.standing.store.evaluations.failure
        query = life.db.definition("counted").id
        until(lambda: failure(query) is not None)
        with pytest.raises(PenstockError, match=r"the join below has .* rows, more than 10") as caught:
            life.db.invoke("counted")
        assert caught.value.condition == "over_budget"
        life.execute("ALTER QUERY counted SET BEGIN (NOW - 200 MS) END (NOW)")
        until(lambda: failure(query) is None)
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
    state = life.db.catalog.state
    assert users_by_name(state.tables.values(), state.queries.values())["table", "left_side"]
