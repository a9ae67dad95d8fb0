"""Joins that differ in constants only run as one step: what each cycle commits for each of them is what it was alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from penstock.cycle.commit_files import from_payload
from penstock.cycle.commits import CommitRecord
from penstock.operators.join.steps import join_sharing
from penstock.operators.join.steps.results import read_results
from tests.support.pipe import BEGAN_US, Pipe

TABLES = "abc"
Results = dict[int, list[tuple[int, ...]]]
Say = Callable[[int], str]
FORMS: dict[str, Say] = {
    "conditions": lambda c: f"SELECT a.n FROM a, b WINDOW = 2 SECONDS WHERE a.k = b.k AND a.v - b.v > {c}",
    "predicates": lambda c: f"SELECT a.n FROM a, b WINDOW = 2 SECONDS WHERE a.k = b.k AND a.v > {c} AND b.v < {9 - c}",
    "sensors": lambda c: f"SELECT a.n FROM a, b WINDOW = 2 SECONDS WHERE a.k = b.k AND a.id = {c % 3 + 1}",
    "remainders": lambda c: f"SELECT a.n FROM a, b WINDOW = 2 SECONDS WHERE a.k = b.k AND a.n % {c + 2} = 1",
    "distinct": lambda c: (
        f"SELECT a.n FROM a, b WINDOW = 3 SECONDS WHERE a.k = b.k AND a.v IS DISTINCT FROM {c}"
        f" AND a.v IS NOT DISTINCT FROM b.v"
    ),
    "key that may be missing": lambda c: (
        f"SELECT a.n FROM a, b WINDOW = 2 SECONDS WHERE a.k IS NOT DISTINCT FROM b.k AND a.v - b.v > {c}"
    ),
    "windows": lambda c: f"SELECT a.n FROM a, b DWINDOW(a,b) = {c + 1} SECONDS WHERE a.k = b.k",
    "graph": lambda c: (
        f"SELECT a.n FROM b, a, c WINDOW(a,b) = {c + 1} SECONDS AND DWINDOW(b,c) = 1 SECOND"
        f" WHERE a.k = b.k AND b.k = c.k AND c.v < {c}"
    ),
    "some equal": lambda c: (
        f"SELECT a.n FROM a, b, c WINDOW = {c % 3 + 1} SECONDS WHERE a.k = b.k AND c.v > 5 AND b.v < c.v + {c}"
    ),
    "inequality": lambda c: f"SELECT a.n FROM a, b WINDOW = 1 SECOND WHERE a.v < b.v - {c}",
    "two inequalities": lambda c: (
        f"SELECT a.n FROM a, b WINDOW = 1 SECOND WHERE {c} + b.v >= a.v AND b.v - 2 < {c} - a.v"
    ),
    "alternatives": lambda c: f"SELECT a.n FROM a, b WINDOW = 1 SECOND WHERE a.v < b.v + {c} - 8.5",
    "products": lambda c: f"SELECT a.n FROM a, b WINDOW = 1 SECOND WHERE a.k = b.k AND a.v * {c} > b.v",
    "order of FROM": lambda c: (
        f"SELECT a.n FROM {'a, b' if c % 2 else 'b, a'} WINDOW = 1 SECOND WHERE b.k = a.k AND a.v > {c}"
    ),
    "itself": lambda c: f"SELECT x.n FROM a x, a y DWINDOW(x,y) = {c + 1} SECONDS WHERE x.k = y.k AND x.n < y.n",
    "a function of the result": lambda c: (
        f"SELECT twice(a.v) AS t FROM a, b WINDOW = 1 SECOND WHERE a.k = b.k AND a.v > {c}"
    ),
    "a table": lambda c: (
        f"SELECT p.name, a.n FROM a, b, places p WINDOW = 1 SECOND WHERE a.k = b.k AND p.id = b.k AND a.v > {c}"
    ),
}


class Two:
    """The same life twice: joins as one, and each on its own."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._chance = np.random.default_rng(7)
        self._n = 0
        self.pipes = {together: Pipe(folder / str(together), cycles_keep=100) for together in (True, False)}
        self.numbers: dict[int, int] = {}
        for table in TABLES:
            self.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (n INT, k INT, v DOUBLE))"
                " WITH (time = 'valid', out_of_order = 'accept')"
            )
            self.execute(f"INSERT INTO {table} VALUES (1, NULL), (2, NULL), (3, NULL)")
        self.execute("CREATE TABLE places (id INT PRIMARY KEY, name TEXT)")
        self.execute("INSERT INTO places VALUES (1, 'one'), (2, 'two')")
        self.execute("CREATE FUNCTION twice(x DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS $$\nreturn 2 * x\n$$")

    def execute(self, sql: str) -> None:
        for pipe in self.pipes.values():
            pipe.db.execute(sql)

    def push(self, rows: int) -> None:
        sent: dict[str, list[dict[str, Any]]] = {}
        for table in TABLES:
            sent[table] = []
            for _ in range(rows):
                self._n += 1
                us = BEGAN_US + self._n * 40_000 - int(self._chance.integers(0, 3)) * 500_000
                value = None if self._chance.random() < 0.1 else float(self._chance.integers(0, 10))
                key, sensor = int(self._chance.integers(0, 5)), int(self._chance.integers(1, 4))
                sent[table].append({"id": sensor, "ts": us, "n": self._n, "k": key, "v": value})
        for pipe in self.pipes.values():
            pipe.clock.advance(1_000_000)
            for table, readings in sent.items():
                pipe.db.push(table, readings)

    def cycle(self) -> tuple[Results, Results, set[int]]:
        """What both commit, and which queries shared a step."""
        found, shared = {}, set()
        for together, pipe in self.pipes.items():
            self._patch.setattr(join_sharing, "SHARING", together)
            record = pipe.engine.cycle()
            found[together] = committed(pipe, record)
            shared |= sharing_in(record) if together else set()
            assert together or not sharing_in(record)
        for query_id, results in found[True].items():
            self.numbers[query_id] = self.numbers.get(query_id, 0) + len(results)
        return found[True], found[False], shared

    def settle(self) -> set[int]:
        """Cycle by cycle until nothing is left; both must commit the same in each."""
        shared: set[int] = set()
        while True:
            offsets = [pipe.engine.commits.last for pipe in self.pipes.values()]
            one, other, sharing_now = self.cycle()
            assert one == other
            shared |= sharing_now
            if [pipe.engine.commits.last for pipe in self.pipes.values()] == offsets:
                return shared


def committed(pipe: Pipe, record: CommitRecord | None) -> Results:
    """By query: log positions, the earliest and the latest time and whatever else a result has, in some order."""
    found: Results = {}
    if record is not None:
        for query_id, kind, _, _, payload in zip(*(c.to_pylist() for c in record.results.columns), strict=True):
            if kind in ("join", "join_file"):
                table: pa.Table = (
                    from_payload(payload) if kind == "join" else read_results(pipe.db.folder, payload.decode())
                )
                found.setdefault(query_id, []).extend(zip(*(c.to_pylist() for c in table.columns), strict=True))
    return {query_id: sorted(rows, key=repr) for query_id, rows in found.items()}


def sharing_in(record: CommitRecord | None) -> set[int]:
    if record is None:
        return set()
    rows = zip(*(record.results[n].to_pylist() for n in ("query", "kind", "payload")), strict=True)
    return {q for q, kind, payload in rows if kind == "join_info" and orjson.loads(payload).get("shared_with")}


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    made = Two(tmp_path, monkeypatch)
    yield made
    for pipe in made.pipes.values():
        pipe.db.stop()


@pytest.mark.parametrize("form", FORMS)
def test_every_cycle_commits_for_each_join_what_it_would_alone(form: str, two: Two) -> None:
    for c in range(6):
        two.execute(f"CREATE QUERY q{c} AS {FORMS[form](c)}")
    two.settle()
    shared: set[int] = set()
    for _ in range(3):
        two.push(25)
        shared |= two.settle()
    assert len(shared) == 6 and sum(two.numbers.values()) > 100


def test_nobody_notices_when_a_join_comes_changes_or_goes(two: Two) -> None:
    """The weakest of all goes, a weaker one comes, one is paused, the server begins again: everybody goes on as before."""
    say = FORMS["predicates"]
    for c in (2, 3, 4):
        two.execute(f"CREATE QUERY q{c} AS {say(c)}")
    changes = [
        "DROP QUERY q2",
        f"CREATE QUERY q1 AS {say(1)}",
        f"CREATE QUERY wide AS {say(1).replace('2 SECONDS', '20 SECONDS')}",
        "ALTER QUERY q3 PAUSE",
        "DROP QUERY q1",
        "ALTER QUERY q3 RESUME",
        "DROP QUERY wide",
    ]
    for change in changes:
        two.push(20)
        two.settle()
        two.execute(change)
        two.push(20)
        for pipe in two.pipes.values():
            pipe.restart()
        two.settle()
    for name in ("q3", "q4"):
        one, other = (pipe.db.query(name)["matched"] for pipe in two.pipes.values())
        assert one == other > 0
        answers = [sorted(map(str, pipe.answer(name, "n"))) for pipe in two.pipes.values()]
        assert answers[0] == answers[1]


def test_explain_says_with_how_many_a_step_is_shared(two: Two) -> None:
    for c in range(3):
        two.execute(f"CREATE QUERY q{c} AS {FORMS['conditions'](c)}")
    two.push(20)
    two.settle()
    texts = ["\n".join(pipe.db.execute("EXPLAIN q1").table["plan"].to_pylist()) for pipe in two.pipes.values()]
    assert "shared with 2 others" in texts[0] and "shared with" not in texts[1]
