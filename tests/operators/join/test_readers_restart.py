"""A reader of a window join across restarts, however few cycles are kept: the same rows of the same cycle, none lost, none twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.clock import SECOND
from penstock.views.standing_queries import Intervals
from tests.operators.join.test_readers import JOINED, expected, read_pairs, told
from tests.support.join_life import ORIGIN, Life, until


def push(life: Life) -> None:
    """Some readings, and exactly one cycle that takes them in."""
    for table, rows in life.rows.items():
        first, late = len(rows), life._rng.integers(0, 3, 10) * SECOND
        made = [
            (ORIGIN + (first + i) * SECOND // 10 - int(late[i]), int(life._rng.integers(0, 5)), first + i)
            for i in range(10)
        ]
        rows += made
        life.db.push(table, [{"id": 1, "ts": ts, "k": k, "n": n} for ts, k, n in made])
    life.engine.cycle()


def only_when_told(life: Life) -> None:
    """No cycle comes for an evaluation alone."""
    life.engine.commits.queue.on_put = lambda: None


def evaluate(life: Life) -> None:
    """Wait for the evaluation at the last cycle; the next cycle commits it."""
    query = life.db.definition("counted").id
    until(lambda: life.db.evaluator._found.get(query) == life.db.standing.store.cycle)


@pytest.mark.parametrize(("keep", "snapshots"), [(1, 1), (1, 2), (2, 1), (2, 3), (5, 1)])
def test_a_reader_loses_and_repeats_nothing_over_restarts(tmp_path: Path, keep: int, snapshots: int) -> None:
    life = Life(tmp_path / "data", intervals=Intervals(trim_cycles=1, snapshot_cycles=snapshots), cycles_keep=keep)
    try:
        only_when_told(life)
        life.execute(f"{JOINED} BEGIN (NOW - 1 SECOND) END (NOW)")
        read_pairs(life, "BEGIN (NOW - 9 SECONDS) END (NOW)")
        for step in range(7):
            before = life.pairs()
            push(life)
            # One cycle later: up to the NOW of this one, of the results of the one before.
            low, high = life.now() - 9 * SECOND, life.now()
            evaluate(life)
            seen = told(life, "counted")
            assert seen == [r for r in expected(life, low, high) if r in rows_of(before)], step
            if step % 3 != 2:
                life.restart()  # and with it a cycle that brings nothing new
                only_when_told(life)
            else:
                life.clock.advance(2 * SECOND)
                life.engine.cycle()
            evaluate(life)
            assert told(life, "counted") == expected(life, low, high), step
        assert len(told(life, "counted")) > 50
    finally:
        life.db.stop()


def rows_of(pairs: list[tuple[int, int, int, int]]) -> set[tuple[int, int, int, int]]:
    return {(min(p[0], p[2]), max(p[0], p[2]), p[1], p[3]) for p in pairs}
