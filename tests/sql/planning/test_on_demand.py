"""Which questions trees over an answer can say, and what a reader's window is to a join that is written out."""

from __future__ import annotations

import pytest

from penstock.catalog.model import QueryDefinition, plan_text
from penstock.errors import PenstockError
from penstock.expr.windows import Bound, TimeWindow
from penstock.sql.explain.notation import show
from penstock.sql.plan import OnDemand, SparkPlan, TreePlan, plan_to_json
from tests.sql.world import World

PAIRS = "SELECT a.speed, b.ppm FROM loops a, loops b WINDOW(a, b) = '1s' WHERE a.segment = 1 AND b.segment = 2"


@pytest.fixture
def asked_about(world: World) -> World:
    world.run("CREATE QUERY fast AS SELECT speed, length, ts FROM loops WHERE speed > 100")
    plan = world.join(PAIRS)
    world.queries["pairs"] = QueryDefinition(
        9, "pairs", PAIRS, plan_text(plan_to_json(plan)), ("loops",), (), (), start_us=5
    )
    return world


def taken(world: World, sql: str) -> OnDemand:
    return on_demand(world.spark(sql))


def on_demand(plan: SparkPlan) -> OnDemand:
    assert isinstance(plan, TreePlan)
    return plan.on_demand


def test_each_aggregate_is_taken_once_and_outputs_are_made_of_them(asked_about: World) -> None:
    found = taken(asked_about, "SELECT MAX(speed) - MIN(speed) AS d, MAX(speed) * 2 AS m, COUNT(*) AS n FROM fast")
    assert [(a.function, show(a.argument)) for a in found.aggregates] == [
        ("max", "speed"),
        ("min", "speed"),
        ("count", "1"),
    ]
    assert [show(o.expr) for o in found.outputs] == ["#0 - #1", "#0 * 2.0", "#2"]


def test_the_text_for_spark_is_what_it_was(asked_about: World) -> None:
    plan = asked_about.spark("SELECT SUM(length) / COUNT(*) AS mean FROM fast BEGIN (NOW - 5 MINUTES) END (NOW)")
    assert "SUM(" in plan.sql and "#" not in plan.sql
    assert on_demand(plan).window == TimeWindow(Bound("now", -300_000_000), Bound("now"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM loops",
        "SELECT segment, COUNT(*) FROM loops GROUP BY segment",
        "SELECT speed FROM fast",
        "SELECT COUNT(DISTINCT speed) FROM fast",
        "SELECT MAX(speed) FILTER (WHERE length > 1) FROM fast",
        "SELECT MAX(speed) FROM fast WHERE length > 1",
        "SELECT MAX(speed) OVER () FROM fast",
        "SELECT AVG(ts - ts) FROM fast",
        "SELECT COUNT(*) FROM fast a JOIN fast b ON a.length = b.length",
        "SELECT SUM(speed) + (SELECT MAX(speed) FROM loops) FROM fast",
        "SELECT MAX(speed), NOW() FROM fast",
    ],
)
def test_everything_else_is_left_to_spark(asked_about: World, sql: str) -> None:
    plan = asked_about.plan(sql)
    assert not isinstance(plan, TreePlan)


def test_a_standing_query_reads_its_rows_itself(asked_about: World) -> None:
    assert not isinstance(asked_about.spark("SELECT COUNT(*) AS n FROM fast", standing=True), TreePlan)


def test_a_window_join_that_is_written_out_is_cut_to_the_readers_window(asked_about: World) -> None:
    whole = asked_about.spark("SELECT COUNT(*) AS n FROM pairs")
    assert on_demand(whole).window is None
    assert "GREATEST" not in whole.sql
    cut = asked_about.spark("SELECT COUNT(*) AS n FROM pairs BEGIN (NOW - 1 MINUTE) END (NOW)")
    assert on_demand(cut).window == TimeWindow(Bound("now", -60_000_000), Bound("now"))
    assert "GREATEST(`a`.`ts`, `b`.`ts`) >= TIMESTAMP_MICROS" in cut.sql.replace("timestamp_micros", "TIMESTAMP_MICROS")
    assert "GREATEST(`a`.`ts`, `b`.`ts`) <= timestamp_micros(:now)" in cut.sql
    grouped = asked_about.spark(
        "SELECT speed, COUNT(*) AS n FROM pairs p GROUP BY speed BEGIN ('2026-01-01') END (NOW) FOR p"
    )
    assert not isinstance(grouped, TreePlan) and grouped.sql.count("GREATEST(`a`.`ts`, `b`.`ts`)") == 2


def test_a_window_of_rows_over_a_join_is_refused(asked_about: World) -> None:
    with pytest.raises(PenstockError, match="a window of rows over another query"):
        asked_about.spark("SELECT COUNT(*) AS n FROM pairs BEGIN (LAST 10 ROWS)")
