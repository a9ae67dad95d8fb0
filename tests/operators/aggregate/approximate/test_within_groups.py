"""WITHIN n PERCENT of correlated aggregates with groups: every group keeps the promise and its bounds, against all rows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.support.examples import SOAK
from tests.support.pipe import Pipe

SHARE = 0.05
OUTER = "kind, COUNT(*) AS n, SUM(cost) AS s, MAX(size) AS high, SUM(size) AS total"
Row = dict[str, Any]


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


ASKED: dict[str, tuple[str, str, bool, Callable[[list[Any]], Any], Callable[[Any, Any], bool]]] = {
    "above_all": ("cost > (SELECT AVG(cost) FROM calls)", "cost", False, mean, lambda x, i: x > i),
    "near_own": (
        "cost >= 0.8 * (SELECT MAX(i.cost) FROM calls i WHERE i.kind = o.kind)",
        "cost",
        True,
        max,
        lambda x, i: x >= 0.8 * i,
    ),
    "largest": ("size >= (SELECT MAX(size) FROM calls) - 700", "size", False, max, lambda x, i: x >= i - 700),
}


@pytest.mark.parametrize("seed", range(2 if SOAK else 1))
def test_every_group_is_as_near_as_promised(seed: int, pipes: Callable[..., Pipe]) -> None:
    chance, pipe = random.Random(seed), pipes()
    pipe.db.execute(
        "CREATE TABLE calls (id INT PRIMARY KEY, c STREAM (cost DOUBLE, size BIGINT, kind TEXT))"
        " WITH (time = 'valid', out_of_order = 'accept')"
    )
    pipe.db.execute("INSERT INTO calls VALUES (1, NULL)")
    window = "BEGIN (NOW - 10 MINUTES) END (NOW)" if seed % 2 else "BEGIN (START - 1 DAY) END (NOW)"
    for name, (where, *_) in ASKED.items():
        question = f"SELECT {OUTER} FROM calls o WHERE {where} GROUP BY kind {window}"
        pipe.db.execute(f"CREATE QUERY {name} AS {question} WITHIN {100 * SHARE:g} PERCENT WITH BOUNDS")
        plan = plan_from_json(pipe.db.definition(name).plan)
        assert isinstance(plan, AggregatePlan) and plan.is_approximate, name
    rows: list[Row] = []
    for _ in range(6):
        pushed = []
        for _ in range(chance.choice([3, 200])):
            pipe.clock.advance(chance.choice([10_000, 900_000, 4_000_000]))
            ts = (pipe.clock.now_us() - chance.choice([0, 0, 0, chance.randint(0, 300_000_000)])) // 1000 * 1000
            kind = chance.choice([None, "x", "x", "x", "y", "y", "z"])
            cost = chance.choice([None, chance.lognormvariate(3, 0.5), chance.gauss(30, 5)])
            row = {"cost": cost, "size": 2**60 + chance.randint(0, 1000), "kind": kind}
            rows.append({**row, "ts": ts})
            pushed.append({**row, "id": 1, "ts": format_timestamp(ts)})
        pipe.db.push("calls", pushed)
        pipe.engine.drain()
        if chance.random() < 0.3:
            pipe.restart()
        now = max(r["ts"] for r in rows)
        inside = [r for r in rows if not seed % 2 or r["ts"] >= now - 600_000_000]
        for name in ASKED:
            check(name, pipe.db.standing.invoke(name).table.to_pylist(), inside)


def check(name: str, answer: list[Row], rows: list[Row]) -> None:
    _, x, own, inner, passes = ASKED[name]
    kinds = {r["kind"] for r in rows}
    limits = {
        k: inner([r[x] for r in rows if r[x] is not None and (not own or r["kind"] == k)])
        for k in kinds
        if any(r[x] is not None and r["kind"] == k for r in rows)
    }
    chosen = [r for r in rows if r[x] is not None and passes(r[x], limits[r["kind"]])]
    if own:
        chosen = [r for r in chosen if r["kind"] is not None]
    assert sorted(map(repr, (r["kind"] for r in answer))) == sorted(map(repr, {r["kind"] for r in chosen})), name
    for found in answer:
        mine = [r for r in chosen if r["kind"] == found["kind"]]
        costs = [r["cost"] for r in mine if r["cost"] is not None]
        truths = {"n": len(mine), "s": math.fsum(costs) if costs else None}
        for column, truth in truths.items():
            if truth is None:
                assert found[column] is None
                continue
            assert abs(found[column] - truth) <= SHARE * abs(truth) + 1e-9, (name, column, found, truth)
            lower, upper = found[f"{column}_lower"], found[f"{column}_upper"]
            assert lower - 1e-9 <= truth <= upper + 1e-9, (name, column, found, truth)
        assert found["high"] == max(r["size"] for r in mine), "MIN and MAX are exact"
        total = (sum(r["size"] for r in mine) + 2**63) % 2**64 - 2**63
        assert found["total"] == found["total_lower"] == found["total_upper"] == total, "and so are sums of BIGINT"
