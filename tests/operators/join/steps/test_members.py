"""Joins that ask for the same have one copy of their results, and each lives as long as it likes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from penstock.cycle.commits import CommitRecord
from penstock.operators.join import result_files
from penstock.operators.join.kernels import step
from penstock.operators.join.steps import members, results
from penstock.operators.join.steps.task import JoinTask
from tests.operators.join.test_result_files import QUERY, Life
from tests.support.watched import watched

AGAIN = QUERY.replace("CREATE QUERY pairs", "CREATE QUERY {name}").format("", name="{name}")


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    for module in (results, result_files):
        monkeypatch.setattr(module, "INLINE_ROWS", 3)
    made = Life(tmp_path / "data")
    yield made
    made.db.stop()


def _cycle(life: Life, rng: np.random.Generator, rows: int = 60) -> CommitRecord:
    life.push(rows, hot=0.3, rng=rng)
    record = life.engine.cycle()
    assert record is not None
    return record


def _files(record: CommitRecord) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for row in record.results.to_pylist():
        if row["kind"] == "join_file":
            found.setdefault(row["query"], []).append(row["payload"])
    return found


def test_equal_joins_are_written_once(life: Life) -> None:
    life.create()
    life.db.execute(AGAIN.format(name="again"))
    life.engine.drain()
    one, other = _files(_cycle(life, np.random.default_rng(1))).values()
    assert one == other and len(one) == 1
    life.check()


def test_results_of_one_stay_when_its_twin_goes(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.snapshot_every(3)
    monkeypatch.setattr(result_files, "MOST_CHUNKS", 4)
    life.create()
    rng = np.random.default_rng(2)
    for turn in range(6):
        # Both the one that was there first and the one that came later live on alone.
        life.db.execute(AGAIN.format(name=f"again{turn}"))
        life.engine.drain()
        for _ in range(5):
            _cycle(life, rng)
        life.check()
        life.db.execute(f"DROP QUERY again{turn}")
        life.engine.drain()
        for _ in range(5):
            _cycle(life, rng)
        if turn % 2:
            life.db.stop()
            life.open()
        life.check()
    assert len(list((life.folder / "results").glob("*.arrow"))) < 60, "files that nothing names are removed"


def test_what_waits_in_memory_is_bounded_over_all_members(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "HELD_ROWS", 50)
    for module in (members, step):
        monkeypatch.setattr(module, "BLOCK", 20)
    life.create()
    for c in range(3):
        life.db.execute(AGAIN.format(name=f"some{c}") + f" AND b.n % 10 > {c}")
    life.engine.drain()
    record = _cycle(life, np.random.default_rng(3), rows=400)
    assert max(map(len, _files(record).values())) > 1
    life.check()
    pairs = list(zip(*(c.to_pylist() for c in life.db.standing.invoke("some1").table.columns), strict=True))
    assert sorted(pairs) == sorted(pair for pair in life.expected() if pair[1] % 10 > 1)


EQUAL = {
    "left": "SELECT {} a.n AS a FROM t a LEFT JOIN t b ON a.k = b.k AND a.n < b.n DWINDOW(a,b) = 1 MS",
    "missing": "SELECT {} a.n AS a FROM t a WHERE NOT EXISTS"
    " (SELECT * FROM t b DWINDOW(a,b) = 1 MS WHERE a.k = b.k AND a.n < b.n)",
    "hint": "SELECT /*+ JOIN(hash) */ {} a.n AS a FROM t a, t b DWINDOW(a,b) = 1 MS WHERE a.k = b.k AND a.n < b.n",
    "function": "SELECT {} a.n AS a FROM t a, t b DWINDOW(a,b) = 1 MS WHERE a.k = b.k AND odd(a.n + b.n)",
}


@pytest.mark.parametrize("form", EQUAL)
def test_equal_joins_of_any_kind_take_one_step(form: str, life: Life) -> None:
    life.create()
    life.db.execute("CREATE FUNCTION odd(x INT) RETURNS BOOLEAN LANGUAGE PYTHON AS $$\nreturn x % 2 == 1\n$$")
    for name, shown in (("one", ""), ("other", "a.k AS k,")):
        life.db.execute(f"CREATE QUERY {name} AS {EQUAL[form].format(shown)}")
    life.engine.drain()
    rng, run = np.random.default_rng(4), list[int]()
    with watched(JoinTask._run_query, tell=lambda given: run.append(given["query_id"])):
        for _ in range(4):
            _cycle(life, rng)
    one, other = (life.db.standing.invoke(name).table for name in ("one", "other"))
    assert sorted(one["a"].to_pylist()) == sorted(other["a"].to_pylist()) != []
    assert other.column_names == ["k", "a"]
    assert len(set(run)) == 2, "pairs, and the two that are equal"
    life.check()
