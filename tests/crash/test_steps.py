"""A server that ends at any step of ingest or commit comes back with every reading once and every answer exact.

So does one that ends while its follower is behind, by more records than it keeps in memory, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.views.follower import RECORDS_MAX
from tests.crash.child import LAG, ROWS, open_database
from tests.support.brute_force import History, defined_at
from tests.support.examples import SOAK
from tests.support.workload import TABLES, check_answers, late_question, questions

ROOT = Path(__file__).parents[2]
WRITING = ("begin", "written", "synced", "renamed", "folder_synced")
INGEST = [f"log:{step}" for step in (*WRITING, "answered")]
COMMIT = [f"commit:{step}" for step in WRITING]
SNAPSHOT = [f"snapshot:{step}" for step in WRITING]
BEHIND = [LAG] * 2


def run(folder: Path, lives: list[str]) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.crash.child", str(folder), *lives]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stderr)
    return done.stdout.split()


@pytest.mark.parametrize("steps", [INGEST, COMMIT, SNAPSHOT, BEHIND], ids=["ingest", "commit", "snapshot", "behind"])
def test_dying_at_any_step_loses_nothing_and_no_answer_is_wrong(tmp_path: Path, steps: list[str]) -> None:
    folder = tmp_path / "data"
    first, more = (5, 3) if SOAK else (4, 2)
    counts = [1 if step.startswith("snapshot") else first + more * i for i, step in enumerate(steps)]
    if steps is BEHIND:
        counts = [first, RECORDS_MAX + more]
    lives = [*(f"{step}:{count}" for step, count in zip(steps, counts, strict=True)), "none:1"]
    assert run(folder, lives) == ["7"] * len(steps) + ["0"]
    acknowledged = int((folder / "acknowledged").read_text())
    db = open_database(folder)
    try:
        db.engine.drain()  # type: ignore[attr-defined]
        asked = [q for table in TABLES for q in questions(table)]
        asked += [late_question(t, life) for t in TABLES for life in range(len(lives)) if has(db, t, life)]
        assert len(asked) > len(TABLES) * len(steps)
        check_answers(db, folder, asked)
        history = History(folder)
        for number, table in enumerate(TABLES):
            table_id = defined_at(folder, 2**60).tables[table]["id"]
            rows = history.rows(table_id, db.log.heads()[table_id])
            pushes = [n for n in range(acknowledged) if n % 2 == number]
            assert [r["seq"] for r in rows] == [n * ROWS + i for n in pushes for i in range(ROWS)]
    finally:
        db.stop()


def has(db: object, table: str, life: int) -> bool:
    return f"{table}_late_{life}" in db.catalog.state.queries  # type: ignore[attr-defined]
