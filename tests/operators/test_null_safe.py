"""IS [NOT] DISTINCT FROM in the cycle: NULL is a value like another, in selections, aggregates and beside plain comparisons."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock.sql.plan import AggregatePlan, JoinPlan, SelectPlan, plan_from_json
from tests.support.pipe import Pipe

CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "value IS DISTINCT FROM 2": lambda r: r["value"] != 2,
    "value IS NOT DISTINCT FROM 2": lambda r: r["value"] == 2,
    "value = 2": lambda r: r["value"] == 2,
    "2 IS DISTINCT FROM value AND id < 3": lambda r: r["value"] != 2 and r["id"] < 3,
    "value IS NOT DISTINCT FROM NULL": lambda r: r["value"] is None,
    "value IS DISTINCT FROM NULL": lambda r: r["value"] is not None,
    "NOT (value IS DISTINCT FROM 'NaN')": lambda r: r["value"] is not None and math.isnan(r["value"]),
    "place IS DISTINCT FROM 'n'": lambda r: r["place"] != "n",
    "place IS NOT DISTINCT FROM said": lambda r: r["place"] == r["said"],
    "place IS DISTINCT FROM said OR value > 2": lambda r: (
        r["place"] != r["said"] or (r["value"] is not None and (math.isnan(r["value"]) or r["value"] > 2))
    ),
}


def rooms(pipe: Pipe) -> dict[int, str | None]:
    places = {1: "n", 2: "s", 3: None, 4: "n"}
    pipe.db.execute("CREATE TABLE rooms (id INT PRIMARY KEY, place TEXT, r STREAM (n INT, value DOUBLE, said TEXT))")
    rows = (f"({i}, {'NULL' if p is None else repr(p)}, NULL)" for i, p in places.items())
    pipe.db.execute(f"INSERT INTO rooms VALUES {', '.join(rows)}")
    return places


@pytest.mark.parametrize("seed", range(2))
def test_every_condition_equals_its_definition_alone_and_under_aggregates(
    seed: int, pipes: Callable[..., Pipe]
) -> None:
    chance = random.Random(seed)
    pipe = pipes()
    places = rooms(pipe)
    window = "BEGIN ('2020-01-01') END (NOW)"
    for place, condition in enumerate(CONDITIONS):
        pipe.db.execute(f"CREATE QUERY q{place} AS SELECT n FROM rooms WHERE {condition} {window}")
        counted = f"COUNT(*) AS n, COUNT(*) FILTER (WHERE {condition}) AS f, said IS DISTINCT FROM place AS other"
        pipe.db.execute(
            f"CREATE QUERY c{place} AS SELECT {counted} FROM rooms GROUP BY said IS DISTINCT FROM place {window}"
        )
        plans = [plan_from_json(pipe.db.definition(f"{kind}{place}").plan) for kind in "qc"]
        assert [type(plan) for plan in plans] == [SelectPlan, AggregatePlan], condition
    rows: list[dict[str, Any]] = []
    for _ in range(6):
        pipe.clock.advance(1000)
        fresh = [
            {
                "id": chance.randint(1, 4),
                "n": len(rows) + i,
                "value": chance.choice([None, 1.0, 2.0, 3.0, math.nan]),
                "said": chance.choice([None, "n", "s"]),
            }
            for i in range(chance.randint(1, 15))
        ]
        pipe.db.push("rooms", fresh)
        rows += [{**row, "place": places[row["id"]]} for row in fresh]
        pipe.engine.drain()
        for place, (condition, holds) in enumerate(CONDITIONS.items()):
            wanted = [row["n"] for row in rows if holds(row)]
            assert sorted(pipe.answer(f"q{place}", "n")) == wanted, (seed, condition)
            groups = Counter(row["said"] != row["place"] for row in rows)
            some = Counter(row["said"] != row["place"] for row in rows if holds(row))
            told = {r["other"]: (r["n"], r["f"]) for r in pipe.db.standing.invoke(f"c{place}").table.to_pylist()}
            assert told == {other: (n, some[other]) for other, n in groups.items()}, (seed, condition)


def test_explain_writes_it_as_it_was_asked(pipe: Pipe) -> None:
    rooms(pipe)
    asked = "SELECT n, value IS NOT DISTINCT FROM 2 AS two FROM rooms WHERE said IS DISTINCT FROM place AND n > 3"
    pipe.db.execute(f"CREATE QUERY q AS {asked}")
    told = pipe.db.execute("EXPLAIN q").table.column("plan").to_pylist()
    assert "  stream predicate: (said IS DISTINCT FROM place) AND (n > 3)" in told, told
    assert "  output: n INT, two BOOLEAN = value IS NOT DISTINCT FROM 2.0" in told, told


KEYS: dict[str, list[Any]] = {
    "number INT": [None, 0, 1],
    "number BIGINT": [None, 0, 2**40],
    "amount DOUBLE": [None, 0.0, -0.0, math.nan, 2.5],
    "said TEXT": [None, "", "n"],
    "yes BOOLEAN": [None, False, True],
    "seen TIMESTAMP": [None, "1970-01-01T00:00:00Z", "2025-11-15T10:00:00Z"],
}


def alike(a: Any, b: Any) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


@pytest.mark.parametrize("field", KEYS)
def test_streams_are_joined_by_keys_of_which_some_are_null(pipes: Callable[..., Pipe], field: str) -> None:
    chance, values = random.Random(field), KEYS[field]
    pipe, name = pipes(), field.split()[0]
    for table in "ab":
        options = "WITH (time = 'valid', out_of_order = 'accept')"
        pipe.db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (n INT, {field})) {options}")
        pipe.db.execute(f"INSERT INTO {table} VALUES (1, NULL)")
    on, begin = f"a.{name} IS NOT DISTINCT FROM b.{name}", "BEGIN ('2020-01-01') END (NOW)"
    pipe.db.execute(f"CREATE QUERY q AS SELECT a.n, b.n AS m FROM a, b WINDOW = 2 SECONDS WHERE {on} {begin}")
    pipe.db.execute(
        f"CREATE QUERY both AS SELECT a.n, b.n AS m FROM a, b WINDOW = 2 SECONDS WHERE {on} AND a.n = b.n {begin}"
    )
    plans = [plan_from_json(pipe.db.definition(query).plan) for query in ("q", "both")]
    assert all(isinstance(plan, JoinPlan) for plan in plans)
    assert [(len(p.inputs[0].keys), len(p.conditions)) for p in plans if isinstance(p, JoinPlan)] == [(2, 0), (1, 1)]
    came: dict[str, list[tuple[int, int, Any]]] = {"a": [], "b": []}
    for _ in range(4):
        for table, rows in came.items():
            fresh = [(len(rows) + i, chance.randint(0, 20), chance.choice(values)) for i in range(12)]
            readings = [
                {"id": 1, "n": n, name: value, "ts": f"2025-11-15T06:00:{second:02}Z"} for n, second, value in fresh
            ]
            pipe.db.push(table, readings)
            rows += fresh
        pipe.engine.drain()
        now = min(max(s for _, s, _ in rows) for rows in came.values())
        expected = sorted(
            (n, m)
            for n, s, value in came["a"]
            for m, t, other in came["b"]
            if abs(s - t) <= 2 and max(s, t) <= now and alike(value, other)
        )
        told = sorted((r["n"], r["m"]) for r in pipe.db.standing.invoke("q").table.to_pylist())
        assert told == expected and told, field
        both = sorted((r["n"], r["m"]) for r in pipe.db.standing.invoke("both").table.to_pylist())
        assert both == [(n, m) for n, m in expected if n == m]
