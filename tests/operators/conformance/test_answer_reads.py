"""No answer of any operator reads more than answer_read_max_rows in the server, and with the smallest one it is the same."""

from __future__ import annotations

import ast
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.clock import SECOND, format_timestamp
from penstock.errors import PenstockError
from penstock.sql.plan import SparkPlan
from tests.operators.conformance.examples import EXAMPLES, JOIN, MINUTE
from tests.operators.conformance.suite import Row, World, counted, whole
from tests.support.examples import FAST
from tests.support.pipe import BEGAN_US

MOST = 2
PAST = format_timestamp(BEGAN_US + 20 * SECOND)
BESIDES = {
    "landmark": f"SELECT window_start, COUNT(*) AS c, SUM(v) AS s FROM a GROUP BY LANDMARK (v > 3) {MINUTE}",
    "tumble": f"SELECT window_start, place, COUNT(*) AS c FROM a GROUP BY place, TUMBLE(5 SECONDS) {MINUTE}",
    "percentile": f"SELECT id, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY v) AS p FROM a GROUP BY id {MINUTE}",
    "windows_of_their_own": f"SELECT place, COUNT(*) AS c, MAX(v, 7 SECONDS) AS m FROM a GROUP BY place {MINUTE}",
    "twa": f"SELECT place, TWA(v) AS t FROM a GROUP BY place {MINUTE}",
    "anti": f"SELECT a.id, a.n FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id DWINDOW(a, b) = 5 SECONDS) {MINUTE}",
    "windows_per_stream": f"SELECT a.n, b.n AS m {JOIN} BEGIN (NOW - 20 SECONDS) FOR a BEGIN (NOW - 1 MINUTE) FOR b",
    "join_panes": f"SELECT window_start, COUNT(*) AS c {JOIN} GROUP BY TUMBLE(5 SECONDS) {MINUTE}",
}
QUESTIONS = {
    f"{operator}-{n}": example.sql
    for operator, every in EXAMPLES.items()
    if operator != SparkPlan.operator
    for n, example in enumerate(every[:1] if FAST else every)
} | BESIDES
ONCE = ["SELECT COUNT(*) AS c, SUM(n) AS s FROM pairs", "SELECT COUNT(*) AS c, MAX(m) AS m FROM chosen"]


def answers(folder: Path, sql: str, most: int) -> tuple[list[Any], int, int]:
    """What readers of all kinds are told over the life of a query, and how many tasks workers ran for it, and for one-shot SELECTs."""
    world, told = World(folder, seed=5, answer_read_max_rows=most), list[Any]()
    for name in ("a", "b"):
        world.db.execute(f"ALTER TABLE {name} SET lateness = '8 SECONDS'")
    world.db.execute(f"CREATE QUERY chosen AS SELECT n, n AS m FROM a WHERE v > 1 {MINUTE}")
    for _ in range(8):
        world.some()
        world.cycle()
    world.db.execute(f"CREATE QUERY q AS {sql}")
    world.settle()
    with closing(world.db.subscribe("q", changes=True)) as subscription:
        for step in range(8):
            world.some()
            world.cycle()
            if step == 4:
                world.db.execute("ALTER QUERY q PAUSE")
                world.cycle()
                world.db.execute("ALTER QUERY q RESUME")
                world.settle()
            told.append(world.rows("q"))
            while (event := subscription.next(0.0)) is not None:
                told.append((event.cycle, counted(event.table)))
    told += [asked(world, f"SELECT * FROM q {each}") for each in ("FINAL", f"AS OF TIMESTAMP '{PAST}'")]
    standing = world.engine.tasks_run
    told += [counted(world.db.execute(each).table) for each in ONCE]
    once = world.engine.tasks_run - standing
    assert world.db.standing.reads.most <= most
    world.restart()
    told += [world.rows("q"), whole(world.db.standing.held("q"))]
    standing += world.engine.tasks_run
    assert world.db.standing.reads.most <= most
    world.db.stop()
    return told, standing, once


def asked(world: World, sql: str) -> Counter[Row] | str:
    try:
        return counted(world.db.execute(sql).table)
    except PenstockError as failure:
        return failure.condition


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_tiny_limit_changes_no_answer_and_holds(tmp_path: Path, question: str) -> None:
    few, tasks, once = answers(tmp_path / "few", QUESTIONS[question], MOST)
    many, no_tasks, none_once = answers(tmp_path / "many", QUESTIONS[question], 1_000_000)
    assert few == many
    assert once > 0 and (tasks > 0 or not is_made_of_other_rows(question))
    assert no_tasks == none_once == 0


def is_made_of_other_rows(question: str) -> bool:
    """Whether an answer is made of rows of the log. A LATCH is a state that goes on."""
    return "LATCH" not in QUESTIONS[question] and any(
        word in question for word in ("aggregate", "functions", "resample", "panes", "tumble", "per_stream")
    )


def test_the_log_is_opened_without_a_budget_by_workers_and_rollups_alone() -> None:
    root, found = Path(penstock.__file__).parent, set[str]()
    for path in root.rglob("*.py"):
        text = path.read_text()
        nodes = ast.walk(ast.parse(text)) if "LogReader(" in text else ()
        calls = (node for node in nodes if isinstance(node, ast.Call))
        for call in calls:
            named = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
            if named == "LogReader" and "budget" not in {keyword.arg for keyword in call.keywords}:
                found.add(str(path.relative_to(root)))
    assert found == {"operators/base/log_reader.py", "operators/aggregate/rollups/keeper.py"}
