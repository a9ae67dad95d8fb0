"""Adding, changing or dropping a query never changes another query's answer: one database with churn, its twin without.

Witnesses of every kind and strategy stand in both. In one of them queries like them, which share factors, slices and join
steps with them, come, change and go between the same readings and the same cycles.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock.clock import SECOND
from penstock.views.standing_queries import Intervals
from tests.support.examples import SOAK
from tests.support.pipe import BEGAN_US, Pipe

TABLE = (
    "CREATE TABLE {} (id INT PRIMARY KEY, place TEXT, r STREAM (v INT)) WITH (time = 'valid', out_of_order = 'accept')"
)
ODD = "CREATE FUNCTION odd(x INT) RETURNS BOOLEAN LANGUAGE python AS $$ x % 2 == 1 $$"
# {c} is what questions of one form differ in; {w} is how long their window is.
FORMS = {
    "selection": "SELECT id, v, ts FROM t WHERE v > {c} BEGIN (NOW - {w} SECONDS) END (NOW)",
    "static": "SELECT place, v FROM t WHERE place = 'north' AND v <> {c} BEGIN (NOW - {w} SECONDS) END (NOW)",
    "rows": "SELECT id, v FROM t WHERE v < {c} BEGIN (LAST {w} ROWS PER SENSOR)",
    "landmark": "SELECT v FROM t WHERE v IN ({c}, 3) BEGIN (START - {w} SECONDS) END (NOW)",
    "function": "SELECT v FROM t WHERE odd(v) AND v > {c} BEGIN (NOW - {w} SECONDS) END (NOW)",
    "lasting": "SELECT id, ts FROM t WHERE v > {c} FOR 2 SECONDS BEGIN (NOW - {w} SECONDS) END (NOW)",
    "aggregate": "SELECT place, COUNT(*), SUM(v), MAX(v) FROM t WHERE v > {c} GROUP BY place"
    " BEGIN (NOW - {w} SECONDS) END (NOW)",
    "join": "SELECT a.v AS x, b.v AS y FROM t a, u b WINDOW = 1 SECOND WHERE a.v < b.v + {c}"
    " BEGIN (NOW - {w} SECONDS) END (NOW)",
    "keyed": "SELECT a.v AS x, b.v AS y FROM t a, u b DWINDOW(a, b) = 2 SECONDS WHERE a.id = b.id AND a.v > {c}"
    " BEGIN (NOW - {w} SECONDS) END (NOW)",
}
STRATEGIES = (None, "complete", "partial", "none")


class Twins:
    """The same readings and cycles in both; only the first has others beside the witnesses."""

    def __init__(self, pipes: Callable[..., Pipe], seed: int) -> None:
        self.random = random.Random(seed)
        intervals = Intervals(snapshot_cycles=9, trim_cycles=4)
        self.both = (pipes(intervals=intervals), pipes(intervals=intervals))
        self.others: dict[str, str] = {}
        self.made = self.now = 0
        for pipe in self.both:
            pipe.clock.advance(3600 * SECOND)
            for table in "tu":
                pipe.db.execute(TABLE.format(table))
                pipe.db.execute(
                    f"INSERT INTO {table} VALUES (1, 'north', NULL), (2, 'south', NULL), (3, 'north', NULL)"
                )
            pipe.db.execute(ODD)

    def asked(self, form: str) -> str:
        return FORMS[form].format(c=self.random.randrange(8), w=self.random.randrange(1, 12))

    def witnesses(self) -> list[str]:
        asked = [
            {"name": f"w_{form}_{number}", "sql": self.asked(form), "strategy": strategy}
            for form in FORMS
            for number, strategy in enumerate(STRATEGIES if form == "selection" else STRATEGIES[:1])
        ]
        for pipe in self.both:
            pipe.db.register(asked)
        return [str(query["name"]) for query in asked]

    def push(self) -> None:
        self.now += self.random.randrange(1, 3)
        for table in "tu":
            rows = [
                {
                    "id": self.random.randrange(1, 4),
                    "v": self.random.randrange(10),
                    "ts": BEGAN_US + self.now * SECOND - self.random.choice([0, 0, 400_000, 3 * SECOND]),
                }
                for _ in range(self.random.randrange(1, 5))
            ]
            for pipe in self.both:
                assert pipe.db.push(table, rows).accepted == len(rows)

    def churn(self) -> None:
        db = self.both[0].db
        kind = self.random.choice(["add", "add", "add", "window", "strategy", "pause", "drop"])
        if kind == "add" or not self.others:
            some = [self.random.choice(sorted(FORMS)) for _ in range(self.random.randrange(1, 6))]
            for form in some:
                self.others[f"q{self.made}"] = form
                strategy = self.random.choice(STRATEGIES)
                db.register([{"name": f"q{self.made}", "sql": self.asked(form), "strategy": strategy}])
                self.made += 1
            return
        name = self.random.choice(sorted(self.others))
        if kind == "window":
            end = "" if self.others[name] == "rows" else " END (NOW)"
            begin = (
                f"LAST {self.random.randrange(1, 9)} ROWS" if not end else f"NOW - {self.random.randrange(20)} SECONDS"
            )
            db.execute(f"ALTER QUERY {name} SET BEGIN ({begin}){end}")
        elif kind == "strategy":
            db.execute(f"ALTER QUERY {name} SET STRATEGY {self.random.choice(STRATEGIES) or 'auto'}")
        elif kind == "pause":
            db.execute(f"ALTER QUERY {name} {self.random.choice(['PAUSE', 'RESUME'])}")
        else:
            db.execute(f"DROP QUERY {name}")
            del self.others[name]

    def cycle(self) -> None:
        for pipe in self.both:
            pipe.engine.drain()
        if self.random.random() < 0.1:
            self.both[0].restart()

    def answers(self, name: str) -> list[Counter[tuple[Any, ...]]]:
        tables = [pipe.db.invoke(name).table for pipe in self.both]
        return [Counter(tuple(row.values()) for row in table.to_pylist()) for table in tables]


@pytest.mark.parametrize("seed", range(2 if SOAK else 1))
def test_queries_that_come_change_and_go_change_nobody_elses_answer(pipes: Callable[..., Pipe], seed: int) -> None:
    twins = Twins(pipes, seed)
    twins.push()
    twins.cycle()
    names = twins.witnesses()
    rows = 0
    for step in range(16):
        twins.push()
        for _ in range(twins.random.randrange(3)):
            twins.churn()
        twins.cycle()
        for name in names:
            with_others, alone = twins.answers(name)
            assert with_others == alone, (seed, step, name, twins.both[0].db.definition(name).sql)
            rows += sum(alone.values())
    assert rows > 500 and twins.made > 10
