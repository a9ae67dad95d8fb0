"""No answer of any operator reads more than answer_read_max_rows in the server, and with the smallest one it is the same."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
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
    operator: {f"q{n}": example.sql for n, example in enumerate(every[:1] if FAST else every)}
    for operator, every in EXAMPLES.items()
    if operator != SparkPlan.operator
} | {"besides": BESIDES}
MADE_OF_OTHER_ROWS = ("aggregate", "functions", "resample")
ONCE = ["SELECT COUNT(*) AS c, SUM(n) AS s FROM pairs", "SELECT COUNT(*) AS c, MAX(m) AS m FROM chosen"]


class Told:
    """What readers of all kinds are told over the life of a query, and how many tasks workers ran for it meanwhile."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.tasks = 0


def answers(folder: Path, questions: dict[str, str], most: int) -> tuple[dict[str, Told], int]:
    """By query; and how many tasks workers ran for SELECTs that are answered once."""
    world, told = World(folder, seed=5, answer_read_max_rows=most), {name: Told() for name in questions}

    @contextmanager
    def telling(name: str) -> Iterator[list[Any]]:
        before = world.engine.tasks_run
        yield told[name].answers
        told[name].tasks += world.engine.tasks_run - before

    for name in ("a", "b"):
        world.db.execute(f"ALTER TABLE {name} SET lateness = '8 SECONDS'")
    world.db.execute(f"CREATE QUERY chosen AS SELECT n, n AS m FROM a WHERE v > 1 {MINUTE}")
    for _ in range(8):
        world.some()
        world.cycle()
    for name, sql in questions.items():
        with telling(name):
            world.db.execute(f"CREATE QUERY {name} AS {sql}")
            world.settle()
    with ExitStack() as stack:
        subscriptions = {n: stack.enter_context(closing(world.db.subscribe(n, changes=True))) for n in questions}
        for step in range(8):
            world.some()
            world.cycle()
            for change in ("PAUSE", "RESUME") if step == 4 else ():
                for name in questions:
                    world.db.execute(f"ALTER QUERY {name} {change}")
                world.settle()
            for name, subscription in subscriptions.items():
                with telling(name) as to:
                    to.append(world.rows(name))
                    while (event := subscription.next(0.0)) is not None:
                        to.append((event.cycle, counted(event.table)))
    for name in questions:
        with telling(name) as to:
            to += [asked(world, f"SELECT * FROM {name} {each}") for each in ("FINAL", f"AS OF TIMESTAMP '{PAST}'")]
    before = world.engine.tasks_run
    once = [counted(world.db.execute(each).table) for each in ONCE]
    tasks_once = world.engine.tasks_run - before
    assert world.db.standing.reads.most <= most
    world.restart()
    for name in questions:
        with telling(name) as to:
            to += [*once, world.rows(name), whole(world.db.standing.held(name))]
    assert world.db.standing.reads.most <= most
    world.db.stop()
    return told, tasks_once


def asked(world: World, sql: str) -> Counter[Row] | str:
    try:
        return counted(world.db.execute(sql).table)
    except PenstockError as failure:
        return failure.condition


@pytest.mark.parametrize("operator", QUESTIONS)
def test_a_tiny_limit_changes_no_answer_and_holds(tmp_path: Path, operator: str) -> None:
    few, once = answers(tmp_path / "few", QUESTIONS[operator], MOST)
    many, none_once = answers(tmp_path / "many", QUESTIONS[operator], 1_000_000)
    assert once > 0 == none_once
    for name, sql in QUESTIONS[operator].items():
        assert few[name].answers == many[name].answers, sql
        assert many[name].tasks == 0, sql
        assert few[name].tasks > 0 or not is_made_of_other_rows(operator, name, sql), sql


def is_made_of_other_rows(operator: str, name: str, sql: str) -> bool:
    """Whether an answer is made of rows of the log. A LATCH is a state that goes on."""
    made = any(word in operator for word in MADE_OF_OTHER_ROWS)
    return "LATCH" not in sql and (made or any(word in name for word in ("panes", "tumble", "per_stream")))


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
