"""When a query by Spark SQL is evaluated again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.operators.sparksql.evaluator import QueryInputs, inputs_of
from penstock.sql.plan import Relation, SparkPlan
from penstock.views.feed import JoinMark

BEFORE = QueryInputs(rows=(1,), times=(1,), moved=5)


@pytest.mark.parametrize(
    ("rows", "times", "moved", "due"),
    [
        (1, 1, 5, False),
        (1, 1, 6, False),  # a cycle came, with nothing for this query
        (2, 1, 5, True),
        (1, 2, 6, True),  # a cycle came, and its window moved
        (1, 2, 5, False),  # only evaluations came: they must not cause the next one
    ],
)
def test_a_query_is_due_with_new_rows_or_with_a_cycle_that_moved_its_window(
    rows: int, times: int, moved: int, due: bool
) -> None:
    assert QueryInputs((rows,), (times,), moved).is_due_after(BEFORE) == due


def test_a_query_without_an_evaluation_is_due() -> None:
    assert BEFORE.is_due_after(None)


def test_inputs_are_equal_whatever_other_queries_got_in_between() -> None:
    assert QueryInputs((1,), (1,), moved=6) == BEFORE


class World:
    """A store as `inputs_of` reads it: the table `boilers`, and the join `near`."""

    def __init__(self, *kinds: Any) -> None:
        self.plan = SparkPlan("SELECT 1", tuple(Relation(kind, kind, "boilers") for kind in kinds), (), "")
        self.definition: Any = SimpleNamespace(id=7, reads_tables=["boilers"])
        state = SimpleNamespace(
            tables={"boilers": SimpleNamespace(id=1)},
            queries={"near": SimpleNamespace(id=8)},
            query_positions={7: (3, 3)},
        )
        offset, start = SimpleNamespace(data={1: 100, 2: 5}, journal=3), SimpleNamespace(data={1: 90})
        self.store: Any = SimpleNamespace(state=state, offset=offset, start=start, moved=4)
        self.join = JoinMark(1, 10, 900)
        self.now_us = 1_000

    def inputs(self) -> QueryInputs:
        recent: Any = [SimpleNamespace(joins={8: self.join})]
        ranges = {"stream": (0, self.now_us)}
        joins = ["near"] if "query" in {relation.kind for relation in self.plan.relations} else []
        return inputs_of(self.plan, self.definition, self.store, ranges, joins, recent)


def test_readings_count_of_tables_that_the_query_reads() -> None:
    world = World("stream")
    before = world.inputs()
    world.store.offset.data[2] += 1
    assert world.inputs() == before
    world.store.offset.data[1] += 1
    assert world.inputs().rows != before.rows


def test_a_changed_definition_counts() -> None:
    world = World("stream")
    before = world.inputs()
    world.store.state.query_positions[7] = (3, 9)
    assert world.inputs().rows != before.rows


def test_time_is_no_row() -> None:
    world = World("stream")
    before = world.inputs()
    world.now_us += 1
    after = world.inputs()
    assert after != before
    assert after.rows == before.rows


@pytest.mark.parametrize(
    ("kind", "counts"), [("stream", False), ("ordinary", True), ("static", True), ("system", True), ("state", False)]
)
def test_the_journal_counts_where_rows_of_tables_are_read(kind: str, counts: bool) -> None:
    world = World(kind)
    before = world.inputs()
    world.store.offset.journal += 1
    assert (world.inputs() != before) == counts


@pytest.mark.parametrize(("kind", "counts"), [("stream", False), ("static", False), ("system", True), ("state", True)])
def test_each_cycle_counts_where_what_is_read_may_change_with_any(kind: str, counts: bool) -> None:
    world = World(kind)
    before = world.inputs()
    world.store.moved += 1
    assert (world.inputs() != before) == counts


@pytest.mark.parametrize(("kind", "counts"), [("stream", False), ("query", True)])
def test_the_start_of_the_cycle_counts_where_another_query_is_read(kind: str, counts: bool) -> None:
    world = World(kind)
    before = world.inputs()
    world.store.start.data[1] += 1
    assert (world.inputs() != before) == counts


def test_results_of_a_join_are_rows_and_its_now_is_time() -> None:
    world = World("query")
    before = world.inputs()
    world.join = JoinMark(1, 10, 901)
    later = world.inputs()
    assert later != before
    assert later.rows == before.rows
    world.join = JoinMark(1, 11, 901)
    assert world.inputs().rows != before.rows
