"""Corners of window joins that a review found: conditions without columns, a lagging stream that pauses, names that pile up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.sql.plan import SparkPlan, plan_from_json
from tests.support.pipe import BEGAN_US, Pipe

JOIN = "SELECT {hint} a.n AS a, b.n AS b FROM t a, u b WINDOW(a,b) = 1 SECOND WHERE a.k = b.k"


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "data")
    for table in ("t", "u"):
        made.db.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (k INT, n INT, s TEXT))"
            " WITH (time = 'valid', out_of_order = 'accept', idle = '10 SECONDS')"
        )
        made.db.execute(f"INSERT INTO {table} VALUES (1, NULL)")
    yield made
    made.db.stop()


def push(pipe: Pipe, table: str, n: int, at_s: float, k: int = 1) -> None:
    reading = {"id": 1, "ts": BEGAN_US + int(at_s * SECOND), "k": k, "n": n, "s": "x"}
    assert pipe.db.push(table, [reading]).accepted == 1


def rows(pipe: Pipe, name: str) -> list[tuple[Any, ...]]:
    pipe.engine.drain()
    found = pipe.db.standing.invoke(name).table
    return sorted(zip(*(c.to_pylist() for c in found.columns), strict=True), key=repr)


@pytest.mark.parametrize("never", ["1 = 2", "NULL IS NOT NULL", "never()"])
@pytest.mark.parametrize("hint", ["", "/*+ JOIN(hash) */", "/*+ JOIN(nested_loop) */"])
def test_a_condition_without_columns_decides_like_any_other(pipe: Pipe, hint: str, never: str) -> None:
    pipe.db.execute("CREATE FUNCTION never() RETURNS BOOLEAN LANGUAGE python AS $$ return False $$")
    asked = JOIN.format(hint=hint)
    pipe.db.execute(f"CREATE QUERY some AS {asked} AND 1 = 1")
    pipe.db.execute(f"CREATE QUERY empty AS {asked} AND {never}")
    push(pipe, "t", 1, 0)
    push(pipe, "u", 2, 0)
    assert rows(pipe, "some") == [(1, 2)]
    assert rows(pipe, "empty") == []


def test_nobody_is_a_partner_where_on_says_so(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE QUERY alone AS SELECT a.n AS a, b.n AS b FROM t a LEFT JOIN u b ON a.k = b.k AND 1 = 2"
        " WINDOW(a,b) = 1 SECOND"
    )
    for at in (0, 1, 5):
        push(pipe, "t", at, at)
        push(pipe, "u", at, at)
    assert rows(pipe, "alone") == [(0, None), (1, None)], "the third still waits"


def test_a_stream_that_lags_and_pauses_loses_no_result(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY pairs AS {JOIN.format(hint='')} BEGIN (NOW - 5 SECONDS) END (NOW)")
    pipe.engine.drain()
    subscription = pipe.db.subscribe("pairs")
    told: list[int] = []
    for second in range(60):
        pipe.clock.advance(SECOND)
        push(pipe, "t", second, second, k=second)
        if second >= 20 and not 30 <= second < 45:
            push(pipe, "u", second - 20, second - 20, k=second - 20)
        pipe.engine.drain()
        while (event := subscription.next(0)) is not None:
            told += event.table.column("a").to_pylist()
    assert sorted(told) == [*range(10), *range(25, 40)]


def test_names_of_dropped_runs_do_not_pile_up(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY even AS {JOIN.format(hint='')} AND a.n % 2 = 0 AND b.n % 2 = 0")
    for turn in range(60):
        pipe.clock.advance(5 * SECOND)
        for table in ("t", "u"):
            push(pipe, table, turn, 5 * turn)
        pipe.engine.drain()
    place = Path(os.path.realpath(pipe.db.folder.buffers))
    assert len(list(place.glob("*/*.gone"))) < 12
    assert len(rows(pipe, "even")) == 30


def test_a_join_that_only_spark_can_link_is_left_to_it(pipe: Pipe) -> None:
    pipe.spark = lambda: SimpleNamespace(run=lambda *_: pa.table({"n": [0]}))
    pipe.engine.drain()
    pipe.db.execute(
        "CREATE QUERY c AS SELECT COUNT(*) AS n FROM t a, u b WINDOW(a,b) = 1 SECOND WHERE MD5(a.s) = MD5(b.s)"
    )
    plan = plan_from_json(pipe.db.definition("c").plan)
    assert isinstance(plan, SparkPlan) and plan.core is None


def test_a_follower_that_is_several_changes_of_window_behind_is_told_all_of_them(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY pairs AS {JOIN.format(hint='')} BEGIN (NOW - 5 SECONDS) END (NOW)")
    pipe.engine.drain()
    subscription = pipe.db.subscribe("pairs", changes=True)
    push(pipe, "t", 0, 0, k=0)
    push(pipe, "u", 0, 0, k=0)
    pipe.engine.drain()
    told: list[int] = []
    while (event := subscription.next(0)) is not None:
        told += event.table.column("a").to_pylist()
    for turn in range(1, 5):
        pipe.db.execute(f"ALTER QUERY pairs SET BEGIN (NOW - {10 * turn} SECONDS)")
        for table in ("t", "u"):
            push(pipe, table, turn, turn, k=turn)
        pipe.engine.drain()
    while (event := subscription.next(0)) is not None:
        told += event.table.column("a").to_pylist()
    assert told == [0, 1, 2, 3, 4]


def test_the_window_of_one_stream_is_changed_while_the_others_stay(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(
        "CREATE QUERY pairs AS SELECT a.value AS a, b.value AS b FROM probes a, probes b WINDOW = 10 MINUTES"
        " WHERE a.value < b.value BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    for value in (1.0, 2.0, 3.0):
        pipe.clock.advance(60 * SECOND)
        pipe.push(value)
        pipe.engine.drain()

    def after(change: str) -> list[tuple[float, float]]:
        pipe.db.execute(f"ALTER QUERY pairs SET {change}")
        pipe.engine.drain()
        return sorted((row["a"], row["b"]) for row in pipe.db.invoke("pairs").table.to_pylist())

    assert after("BEGIN (NOW - 90 SECONDS) FOR a") == [(2.0, 3.0)]
    assert after("END (NOW - 30 SECONDS) FOR b") == []
    assert after("BEGIN (NOW - 1 HOUR) FOR a") == [(1.0, 2.0)]
    assert after("END (NOW) FOR b") == [(1.0, 2.0), (1.0, 3.0), (2.0, 3.0)]
    assert after("BEGIN (NOW - 1 SECOND)") == [(1.0, 2.0), (1.0, 3.0), (2.0, 3.0)], (
        "both have windows of their own by now"
    )
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute("ALTER QUERY pairs SET BEGIN (NOW - 1 MINUTE) FOR c")
    assert refused.value.condition == "table_not_found"
