"""A window with which a query is evaluated in another way: subscribers are told to come again, and nothing of the old way stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.sql.parse import parse_select
from penstock.statements.query_statements import stored
from penstock.statements.select import plan_of
from tests.support.join_life import PAIRS, Life
from tests.support.pipe import Pipe

COUNTED = f"SELECT a.k, COUNT(*) AS n {PAIRS} GROUP BY a.k BEGIN (NOW - 3 SECONDS) END (NOW)"


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path / "data", cycles_keep=50)
    yield made
    made.db.stop()


@pytest.mark.parametrize("changes", [False, True])
def test_aggregates_over_a_join_that_become_sparks(life: Life, changes: bool) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED}")
    life.push()
    early, late = life.db.subscribe("counted", changes=changes), life.db.subscribe("counted", changes=changes)
    assert early.next(0.0) is not None
    assert life.db.standing.store.slices.nbytes > 0
    life.execute("ALTER QUERY counted SET BEGIN (NOW - 2 SECONDS) END (NOW) FOR a")
    life.push()
    with pytest.raises(PenstockError, match="evaluated in another way") as told:
        early.next(60.0)
    assert told.value.condition == "cycle_gone"
    assert late.next(60.0) is not None  # it has seen nothing of the old way
    early.close()
    late.close()
    assert life.db.standing.store.slices.nbytes == 0
    life.settled("counted")
    again = life.db.subscribe("counted", changes=changes)
    event = again.next(60.0)
    assert event is not None and "n" in event.table.column_names
    again.close()


def test_what_an_older_version_left_to_spark_and_cycles_answer_now(life: Life) -> None:
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN (NOW - 3 SECONDS) END (NOW) FOR a")
    life.push()
    life.settled("counted")
    subscription = life.db.subscribe("counted")
    assert subscription.next(60.0) is not None
    plan = plan_of(life.db, parse_select(COUNTED), standing=True)
    assert life.db.catalog.retarget_query(life.db.definition("counted"), COUNTED, stored(plan))
    life.engine.drain()
    life.push()
    with pytest.raises(PenstockError, match="evaluated in another way"):
        subscription.next(0.0)
    subscription.close()
    assert life.db.invoke("counted").table.num_rows > 0


def test_aggregates_that_become_sparks(life: Life) -> None:
    high = "n > (SELECT AVG(n) FROM left_side BEGIN (NOW - 1 HOUR) END (NOW))"
    life.execute(
        f"CREATE QUERY counted AS SELECT COUNT(n) AS c FROM left_side WHERE {high} BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    life.push()
    subscription = life.db.subscribe("counted")
    assert subscription.next(0.0) is not None and life.db.query("counted")["runs"] == "slices"
    life.execute("ALTER QUERY counted SET BEGIN (NOW - 1 MINUTE)")
    life.push()
    assert life.db.query("counted")["runs"] == "Spark SQL"
    with pytest.raises(PenstockError, match="evaluated in another way"):
        subscription.next(60.0)
    subscription.close()
    slices = life.db.standing.store.slices
    assert not slices.families and slices.nbytes == 0


WINDOWS = ["BEGIN (LAST 3 ROWS)", "BEGIN (NOW - 1 HOUR) END (NOW)", "BEGIN (LAST 2 ROWS PER SENSOR)"]


@pytest.mark.parametrize("changes", [False, True])
def test_an_aggregate_goes_on_from_rows_to_time_and_back(pipe: Pipe, changes: bool) -> None:
    pipe.probes()
    pipe.push(5.0)
    pipe.engine.drain()
    pipe.db.execute(f"CREATE QUERY top AS SELECT MAX(value) AS top FROM probes {WINDOWS[0]}")
    pipe.engine.drain()
    subscription = pipe.db.subscribe("top", changes=changes)
    assert subscription.next(0.0) is not None
    for step, window in enumerate([*WINDOWS[1:], WINDOWS[0]]):
        pipe.db.execute(f"ALTER QUERY top SET {window}")
        pipe.push(10.0 + step)
        pipe.engine.drain()
        event = subscription.next(0.0)
        assert event is not None and event.table.column("top").to_pylist()[-1] == 10.0 + step
    subscription.close()
