"""Joins with more rows than memory should hold, below an aggregate: they go to Spark in files, and only new ones are written."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.clock import SECOND
from penstock.operators.join.answer import JoinAt
from penstock.operators.sparksql import join_rows
from penstock.sql.plan import SparkPlan, plan_from_json
from tests.support.join_life import COUNTED, PAIRS, Life, last_times, until
from tests.support.watched import watched

PIECE = 32


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    """One answer holds ten rows at most, and memory no more of a join."""
    monkeypatch.setattr(join_rows, "IN_MEMORY_ROWS", 10)
    monkeypatch.setattr(join_rows, "PIECE_ROWS", PIECE)
    made = Life(tmp_path / "data", result_max_rows=10)
    yield made
    made.db.stop()


def files(life: Life) -> set[str]:
    gc.collect()
    return {f.name for f in (life.db.folder.tmp / "handed").glob("*")}


def inside(life: Life, reach_us: int) -> list[tuple[int, int]]:
    low, high = life.now() - reach_us, life.now()
    pairs = [p for p in life.pairs() if low <= min(p[0], p[2]) and max(p[0], p[2]) <= high]
    return sorted((max(p[0], p[2]), p[3]) for p in pairs)


def test_an_aggregate_gets_every_row_of_a_join_that_is_larger_than_any_answer(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN (NOW - 5 SECONDS) END (NOW)")
    for _ in range(5):
        life.push()
        life.settled("counted")
        assert last_times(life, "counted") == inside(life, 5 * SECOND)
    assert len(inside(life, 5 * SECOND)) > 100
    plan = plan_from_json(life.db.definition("counted").plan)
    assert isinstance(plan, SparkPlan)
    used = life.runner.in_files[f"{plan.sql} {plan.relations[0].name}"]
    # Whoever evaluates holds the files of the time before until it is done, a moment after its answer is there.
    until(lambda: {f.name for f in used} == files(life))
    assert len(used) > 3


@pytest.fixture
def written() -> Iterator[list[int]]:
    """How many rows each look at a join has fetched; before `life`, whose thread makes these looks."""
    found: list[int] = []
    with watched(JoinAt.rows, tell=lambda given: found.append(len(given["ids"])), threads=True):
        yield found


def test_what_stays_is_not_written_again(written: list[int], life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN ('2020-01-01') END (NOW)")
    last = 0
    for _ in range(6):
        life.push()
        life.settled("counted")
        found = len(last_times(life, "counted"))
        # New ones, and what was too little for a piece of its own.
        assert sum(written) <= found - last + PIECE
        last = found
        written.clear()
    assert last > 10 * PIECE


def test_files_go_with_the_question_and_with_the_query(life: Life) -> None:
    life.push()
    life.push()
    life.execute(f"CREATE QUERY pairs AS SELECT a.n AS a, b.n AS b {PAIRS} BEGIN ('2020-01-01') END (NOW)")
    life.execute("CREATE QUERY counted AS SELECT DISTINCT ON (a) a AS n FROM pairs BEGIN ('2020-01-01') END (NOW)")
    life.push()
    life.settled("counted")
    assert files(life)
    life.execute("DROP QUERY pairs CASCADE")
    life.db.evaluator._due()
    until(lambda: not files(life))


def test_a_window_that_shrinks_comes_back_to_memory(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN ('2020-01-01') END (NOW)")
    life.push()
    life.push()
    life.settled("counted")
    assert files(life)
    life.execute("ALTER QUERY counted SET BEGIN (NOW - 100 MS) END (NOW)")
    life.settled("counted")
    assert last_times(life, "counted") == inside(life, SECOND // 10) and len(inside(life, SECOND // 10)) <= 10
    until(lambda: not files(life))
