"""Plans by the shape of a text: equal to those of the text, and only where text and table alone decide them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError
from penstock.sql.parse import parse_select
from penstock.sql.plan import Plan, plan_to_json
from penstock.sql.planning.planner import plan_query
from penstock.sql.planning.shapes import PlanShapes
from tests.sql.world import World, plant

PLANT = plant()
COLUMNS = {
    "loops": ("loop_id", "segment", "speed", "length", "ppm"),
    "sensors": ("sensor_id", "lat", "gas_id", "ppm", "reading.gas_id"),
    "odd": ("id", "big", "amount", "ok", "name", "seen", "ts"),
}
CONSTANTS = some.one_of(
    some.sampled_from([0, 1, 7, 31, 999_999_999, 1_500_000_007, 2**31, 2**63]), some.integers(0, 10**6)
)
COMPARISON = some.tuples(
    some.integers(0, 4), some.sampled_from(["=", "<", ">", "<=", ">=", "<>", "!="]), some.sampled_from([" ", "", "\n "])
)


def planned(text: str) -> Plan:
    return plan_query(parse_select(text), state(PLANT), standing=True, joins=True, spent=True)


def state(world: World) -> CatalogState:
    return cast(CatalogState, world)


def outcome(text: str) -> Any:
    try:
        return plan_to_json(planned(text))
    except PenstockError as failure:
        return failure.condition


def learn(shapes: PlanShapes, text: str) -> None:
    try:
        plan = planned(text).selection
    except PenstockError:
        return
    if plan is not None:
        shapes.learn(parse_select(text).sql, plan, state(PLANT), planned)


@given(data=some.data())
def test_a_plan_by_shape_equals_that_of_the_text(data: some.DataObject) -> None:
    table = data.draw(some.sampled_from(sorted(COLUMNS)))
    compared = data.draw(some.lists(COMPARISON, min_size=1, max_size=4))
    joined = data.draw(some.sampled_from([" AND ", " OR ", " and not ", " AND\n", " + 1 AND ", " * 2 AND "]))
    tail = data.draw(some.sampled_from(["", " BEGIN (NOW - 10 SECONDS) END (NOW)", " BEGIN (LAST 7 ROWS)"]))
    output = data.draw(some.sampled_from(["*", "ts", f"ts, {COLUMNS[table][0]} AS k", f"{COLUMNS[table][0]} + 3 AS k"]))

    def text() -> str:
        parts = [
            f"{COLUMNS[table][n % len(COLUMNS[table])]}{gap}{sign}{gap}{data.draw(CONSTANTS)}"
            for n, sign, gap in compared
        ]
        return f"SELECT {output} FROM {table} WHERE {joined.join(parts)}{tail}"

    shapes = PlanShapes()
    for _ in range(2):
        learn(shapes, text())
    for asked in (text(), f" {text()}\n"):
        found = shapes.plan(asked, state(PLANT))
        if found is not None:
            assert plan_to_json(found.plan) == outcome(asked)
            assert found.sql == parse_select(asked).sql


def test_the_third_text_of_a_shape_is_not_planned(world: World) -> None:
    text = "SELECT speed FROM loops WHERE loop_id = {} AND speed >= {} BEGIN (NOW - 10 SECONDS) END (NOW)"
    shapes = PlanShapes()
    for n in range(2):
        assert shapes.plan(text.format(n, n), state(PLANT)) is None
        learn(shapes, text.format(n, n))
    found = shapes.plan(text.format(12, 7), state(PLANT))
    assert found is not None
    assert plan_to_json(found.plan) == outcome(text.format(12, 7))
    # Another table of the same name is another table.
    assert shapes.plan(text.format(12, 7), state(world)) is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT volt FROM pulse WHERE similar(volt, 2) AND volt > 3",
        "SELECT volt FROM pulse WHERE abs(volt) > 2 AND volt > 3",
        "SELECT volt FROM pulse WHERE volt > 3 -- AND volt > 4",
        "SELECT volt FROM pulse WHERE volt > 3 AND 'a = 5' = 'a = 5'",
        "SELECT abs(volt) AS v FROM pulse WHERE volt > 3",
        "SELECT COUNT(*) FROM pulse WHERE volt > 3 BEGIN (NOW - 1m) END (NOW)",
        "SELECT name FROM odd WHERE amount > 3",
        "SELECT volt FROM pulse",
    ],
)
def test_other_texts_are_planned_each_on_its_own(text: str) -> None:
    shapes = PlanShapes()
    for _ in range(3):
        learn(shapes, text)
        assert shapes.plan(text, state(PLANT)) is None
