"""A new operator is a folder and a line in the registry: it plans, answers, pushes, explains and survives a restart."""

from __future__ import annotations

import random

import pytest

from penstock.catalog.system_columns import SYSTEM_TABLES
from penstock.operators import registry
from penstock.sql.parse import parse_select
from penstock.sql.plan import SparkPlan, plan_from_json, plan_to_json
from penstock.sql.planning.planner import plan_query
from tests.operators.example.plan import TopPlan
from tests.support.pipe import Pipe

QUESTION = "SELECT value FROM probes WHERE value > 2 ORDER BY value DESC LIMIT 3 BEGIN (NOW - 1 HOUR) END (NOW)"


@pytest.fixture(autouse=True)
def registered(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    pipe.probes()
    monkeypatch.setitem(registry.OPERATORS, "top", "tests.operators.example")


def test_it_answers_as_brute_force_does(pipe: Pipe) -> None:
    chance, values = random.Random(7), []
    pipe.db.execute(f"CREATE QUERY top AS {QUESTION}")
    for _ in range(20):
        values.append(float(chance.randint(0, 9)))
        pipe.push(values[-1])
        pipe.engine.drain()
        expected = sorted((v for v in values if v > 2), reverse=True)[:3]
        assert pipe.db.invoke("top").table.column("value").to_pylist() == expected


def test_history_counts_and_it_survives_a_restart(pipe: Pipe) -> None:
    for value in (5.0, 1.0, 9.0, 7.0, 3.0):
        pipe.push(value)
    pipe.engine.drain()
    pipe.db.execute(f"CREATE QUERY top AS {QUESTION}")
    pipe.engine.drain()
    before = pipe.db.invoke("top")
    assert before.table.column("value").to_pylist() == [9.0, 7.0, 5.0]
    pipe.restart()
    assert pipe.db.invoke("top").table == before.table
    assert pipe.db.invoke("top", before.cycle).table == before.table


def test_a_subscriber_gets_changes_that_add_up(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY top AS {QUESTION}")
    pipe.engine.drain()
    subscription, known = pipe.db.subscribe("top", changes=True), list[float]()
    for value in (None, 4.0, 6.0, 5.0, 8.0):
        if value is not None:
            pipe.push(value)
            pipe.engine.drain()
        event = subscription.next(5)
        for row in event.table.to_pylist() if event is not None else ():
            (known.append if row["op"] == "+" else known.remove)(row["value"])
        assert sorted(known) == sorted(pipe.db.invoke("top").table.column("value").to_pylist())
    subscription.close()


def test_it_is_stored_described_and_explained(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY top AS {QUESTION}")
    pipe.engine.drain()
    plan = plan_from_json(pipe.db.definition("top").plan)
    assert isinstance(plan, TopPlan) and plan_from_json(plan_to_json(plan)) == plan
    assert pipe.db.query("top")["runs"] == "shared pass, sorted"
    (first, *_) = pipe.db.execute("EXPLAIN top").table.column("plan").to_pylist()
    assert first == "sorted when asked: the first 3 rows of"


def test_what_it_does_not_cover_is_planned_as_before(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    state = pipe.db.catalog.state.frozen()
    for sql in (
        "SELECT value FROM probes ORDER BY value + 1 LIMIT 3",
        "SELECT DISTINCT ON (id) id FROM probes LIMIT 1",
    ):
        select, again = parse_select(sql), parse_select(sql)
        plan = plan_query(select, state, True, SYSTEM_TABLES, joins=True)
        with monkeypatch.context() as without:
            without.delitem(registry.OPERATORS, "top")
            assert isinstance(plan, SparkPlan) and plan == plan_query(again, state, True, SYSTEM_TABLES, joins=True)
