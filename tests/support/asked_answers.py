"""A query whose answer is asked for aggregates, and what Spark SQL would be given for them."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.clock import SECOND
from penstock.operators.sparksql.moments import moment_of
from penstock.pipeline.history import HistoryReader
from penstock.pipeline.spark_sql import SparkRunner
from penstock.sql import statements as st
from penstock.sql.parse import parse_script
from penstock.sql.plan import SparkPlan
from penstock.statements.select import plan_of
from tests.support.pipe import BEGAN_US, Pipe

TABLE = (
    "CREATE TABLE probes (id INT PRIMARY KEY, place TEXT,"
    " reading STREAM (x DOUBLE, n INT, big BIGINT, word TEXT, price DECIMAL(8, 2))) WITH (time = 'valid', out_of_order = 'accept')"
)
ASKED = (
    "SELECT COUNT(*) AS all, COUNT(x) AS known, SUM(x), AVG(x), MIN(x), MAX(x), SUM(n) AS sn, AVG(n) AS an,"
    " MAX(n) - MIN(n) AS spread, SUM(big) AS sb, MIN(big) AS lb, MAX(ts) AS last, COUNT(word) AS words,"
    " SUM(n + 1) / COUNT(*) AS shifted FROM seen"
)


class World:
    """A stream of readings with gaps and late ones, and what Spark would read of it."""

    def __init__(self, pipe: Pipe, seed: int = 1) -> None:
        self.pipe = pipe
        self.rng = random.Random(seed)
        self.now = BEGAN_US
        self.runs = 0
        self.plans: dict[tuple[str, int], SparkPlan] = {}
        pipe.db.execute(TABLE)
        pipe.db.execute("INSERT INTO probes VALUES (1, 'north', NULL), (2, 'south', NULL), (3, 'north', NULL)")

        def spark() -> Any:
            self.runs += 1
            raise AssertionError("Spark was asked")

        pipe.spark = spark

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
        plan = self.plan(sql)
        with self.pipe.db.standing.locked() as store:
            moment = moment_of(plan, store, None)
        session: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
        (relation,) = plan.relations
        request, _ = SparkRunner(session, self.pipe.db.folder, 1)._request(relation, "x n big word ts price", moment)
        request = replace(request, columns=("x", "n", "big", "word", "ts"))
        reader = HistoryReader({"request": request.to_option()})
        return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]

    def plan(self, sql: str) -> SparkPlan:
        """Spark's plan of the question; made once while nothing is defined anew."""
        version = self.pipe.db.catalog.state.position
        if (sql, version) not in self.plans:
            (statement,) = parse_script(sql)
            assert isinstance(statement, st.Select)
            plan = plan_of(self.pipe.db, statement, standing=False)
            assert isinstance(plan, SparkPlan)
            self.plans[sql, version] = plan
        return self.plans[sql, version]

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
