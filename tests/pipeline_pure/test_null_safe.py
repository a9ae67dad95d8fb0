"""IS [NOT] DISTINCT FROM in the cycle: NULL is a value like another, in selections, aggregates and beside plain comparisons."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock.sql.plan import AggregatePlan, SelectPlan, plan_from_json
from tests.pipeline_pure.world import Pipe

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
