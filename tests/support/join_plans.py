"""Planning a window join in a test, and what of its plan or its refusal is looked at."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.sql.explain.notation import show
from penstock.sql.parse import parse_script
from penstock.sql.plan import JoinPlan, Plan, plan_from_json, plan_to_json
from penstock.sql.planning.planner import plan_query
from penstock.sql.statements import Select
from tests.sql.world import World

S = 1_000_000
SILENCE = (
    "SELECT p.sensor_id, p.ts FROM sensors p WHERE NOT EXISTS (SELECT 1 FROM sensors n "
    "WHERE n.sensor_id = p.sensor_id AND n.ts > p.ts DWINDOW(p,n) = 5 MINUTES)"
)


def planned(world: World, sql: str, standing: bool = True) -> Plan:
    (statement,) = parse_script(sql)
    assert isinstance(statement, Select)
    return plan_query(statement, world, standing, joins=True)


def stored(world: World, sql: str) -> Plan:
    """A standing question's plan, which is the same when it comes back from the journal."""
    plan = planned(world, sql)
    assert plan_from_json(plan_to_json(plan)) == plan
    return plan


def refused(world: World, sql: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        planned(world, sql)
    return caught.value


def under_caret(failure: PenstockError, sql: str) -> str:
    assert failure.line == 1 and failure.column is not None
    shown = failure.render().splitlines()[2]
    return sql[failure.column - 1 : failure.column - 1 + shown.count("^")]


def keys(plan: JoinPlan) -> list[list[str]]:
    return [[show(key) for key in each.keys] for each in plan.inputs]


def conditions(plan: JoinPlan) -> list[str]:
    return [show(condition) for condition in plan.conditions]


def alone(plan: JoinPlan) -> list[tuple[str | None, str | None]]:
    return [
        (
            None if each.static_predicate is None else show(each.static_predicate),
            None if each.stream_predicate is None else show(each.stream_predicate),
        )
        for each in plan.inputs
    ]
