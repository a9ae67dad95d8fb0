"""ORDER BY and LIMIT over standing aggregates: the first few groups, in the cycle."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.support.pipe import Pipe

ALL = "SELECT place, kind, SUM(value) AS total, COUNT(value) AS n{} FROM shops GROUP BY place, kind"
PLAIN = ALL.format("")
WINDOW = "BEGIN (NOW - 20 SECONDS) END (NOW)"
ORDERS: dict[str, tuple[str, Callable[[dict[str, Any]], Any], int, int | None]] = {
    "top": (
        "ORDER BY total DESC, place, kind LIMIT 3",
        lambda r: (_down(r["total"], True), r["place"], r["kind"]),
        0,
        3,
    ),
    "low": ("ORDER BY 4, total NULLS FIRST OFFSET 1", lambda r: (r["n"], _up(r["total"], True)), 1, None),
    "unseen": (
        "ORDER BY MAX(value) DESC NULLS LAST, n + COUNT(*), lower(kind) DESC LIMIT 5",
        lambda r: (_down(r["high"], False), r["n"] + r["rows"], -ord(r["kind"][0]), -ord(r["kind"][1])),
        0,
        5,
    ),
}


def _up(value: float | None, nulls_first: bool) -> tuple[int, int, float]:
    if value is None:
        return (-1 if nulls_first else 2, 0, 0.0)
    return (0, 1, 0.0) if math.isnan(value) else (0, 0, value)


def _down(value: float | None, nulls_first: bool) -> tuple[int, int, float]:
    rank, nan, number = _up(value, nulls_first)
    return (rank, -nan, -number)


def shops(pipe: Pipe) -> None:
    pipe.db.execute("CREATE TABLE shops (id INT PRIMARY KEY, place TEXT, kind TEXT, r STREAM (value DOUBLE))")
    rows = ", ".join(f"({i}, '{'nsew'[i % 4]}', '{'xy'[i % 2]}{i % 3}', NULL)" for i in range(12))
    pipe.db.execute(f"INSERT INTO shops VALUES {rows}")


@pytest.mark.parametrize("seed", range(3))
def test_the_first_groups_are_those_of_the_whole_answer(seed: int, pipes: Callable[..., Pipe]) -> None:
    chance = random.Random(seed)
    pipe = pipes()
    shops(pipe)
    pipe.db.execute(f"CREATE QUERY whole AS {ALL.format(', MAX(value) AS high, COUNT(*) AS rows')} {WINDOW}")
    for name, (clause, _, _, _) in ORDERS.items():
        pipe.db.execute(f"CREATE QUERY {name} AS {PLAIN} {WINDOW} {clause}")
        assert isinstance(plan_from_json(pipe.db.definition(name).plan), AggregatePlan), name
    for _ in range(20):
        pipe.clock.advance(chance.choice([1000, 3_000_000]))
        values = [None, 1.0, -2.5, math.nan, float(chance.randint(0, 9))]
        pushed = [{"id": chance.randint(0, 11), "value": chance.choice(values)} for _ in range(chance.randint(0, 9))]
        if pushed:
            pipe.db.push("shops", pushed)
        pipe.engine.drain()
        if chance.random() < 0.1:
            pipe.restart()
        whole = pipe.db.standing.invoke("whole").table.to_pylist()
        for name, (_, key, offset, limit) in ORDERS.items():
            wanted = sorted(whole, key=key)[offset : None if limit is None else offset + limit]
            wanted = [{name: row[name] for name in ("place", "kind", "total", "n")} for row in wanted]
            assert repr(pipe.db.standing.invoke(name).table.to_pylist()) == repr(wanted), (seed, name)


def test_who_follows_the_best_hears_who_comes_and_who_goes(pipe: Pipe) -> None:
    shops(pipe)
    best = "SELECT place, MAX(value) AS best FROM shops GROUP BY place, LATCH ORDER BY best DESC LIMIT 1"
    pipe.db.execute(f"CREATE QUERY best AS {best}")
    pipe.engine.drain()
    following = pipe.db.subscribe("best", changes=True)
    assert following.next(60.0) is not None
    told: list[Any] = []
    for sensor, value in ((0, 5.0), (1, 3.0), (2, 9.0)):
        pipe.clock.advance(1000)
        pipe.db.push("shops", [{"id": sensor, "value": value}])
        pipe.engine.drain()
        while (event := following.next(0)) is not None:
            told.append({(row["op"], row["place"], row["best"]) for row in event.table.to_pylist()})
    assert [step for step in told if step] == [{("+", "n", 5.0)}, {("-", "n", 5.0), ("+", "e", 9.0)}]
    lines = pipe.db.execute("EXPLAIN best").table.column("plan").to_pylist()
    assert "  sorted: best DESC, 1 rows" in lines, lines


def test_who_is_first_by_what_is_not_shown_is_heard_and_remembered(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(cycles_keep=10)
    shops(pipe)
    asked = {
        "busiest": f"SELECT place FROM shops GROUP BY place {WINDOW} ORDER BY COUNT(*) DESC LIMIT 1",
        "latched": "SELECT place FROM shops GROUP BY place, LATCH ORDER BY COUNT(value) DESC, place LIMIT 1",
        "lately": "SELECT place FROM shops GROUP BY place ORDER BY COUNT(*, 20 SECONDS) DESC LIMIT 1",
        "largest": f"SELECT DISTINCT id FROM shops {WINDOW} ORDER BY -id LIMIT 1",
        "picked": f"SELECT place FROM shops WHERE value >= (SELECT MIN(value) FROM shops) GROUP BY place {WINDOW}"
        " ORDER BY SUM(value) DESC LIMIT 1",
    }
    for name, question in asked.items():
        pipe.db.execute(f"CREATE QUERY {name} AS {question}")
        assert isinstance(plan_from_json(pipe.db.definition(name).plan), AggregatePlan), name
    pipe.engine.drain()
    following = pipe.db.subscribe("busiest", changes=True)
    told: list[Any] = []
    cycles: list[int] = []
    for sensor, value in ((0, 1.0), (1, 1.0), (1, 4.0), (0, 1.0), (0, 1.0)):
        pipe.clock.advance(1000)
        pipe.db.push("shops", [{"id": sensor, "value": value}])
        pipe.engine.drain()
        cycles.append(pipe.db.standing.store.cycle)
        while (event := following.next(0)) is not None:
            assert set(event.table.column_names) <= {"op", "place"}
            told += [{(row["op"], row["place"]) for row in event.table.to_pylist()}]
    # A tie comes by key: n before s.
    assert [step for step in told if step] == [
        {("+", "n")},
        {("-", "n"), ("+", "s")},
        {("-", "s"), ("+", "n")},
    ], told
    assert pipe.db.standing.invoke("busiest", cycles[2]).table.to_pylist() == [{"place": "s"}]
    for _ in range(2):
        assert {name: pipe.db.standing.invoke(name).table.to_pylist() for name in asked} == {
            "busiest": [{"place": "n"}],
            "latched": [{"place": "n"}],
            "lately": [{"place": "n"}],
            "largest": [{"id": 1}],
            "picked": [{"place": "s"}],
        }
        pipe.restart()
    lines = pipe.db.execute("EXPLAIN busiest").table.column("plan").to_pylist()
    assert "  sorted: count(*) DESC, 1 rows" in lines and "  output: place TEXT" in lines, lines
