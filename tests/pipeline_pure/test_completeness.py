"""complete_from: said where observation or history does not reach back as far as the window."""

from __future__ import annotations

from penstock.clock import SECOND
from tests.pipeline_pure.world import BEGAN_US, Pipe

HOUR = 3600 * SECOND


def aged(pipe: Pipe, options: str = "") -> None:
    """Sensors that have been observed for two hours, with an old reading and a new one."""
    pipe.probes(options)
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.push(1.0)
    pipe.engine.drain()
    pipe.clock.advance(2 * HOUR)
    pipe.push(2.0)
    pipe.engine.drain()


def test_a_window_inside_what_was_observed_and_kept_is_complete(pipe: Pipe) -> None:
    aged(pipe)
    assert pipe.db.invoke("seen").complete_from_us is None


def test_a_window_that_reaches_back_before_the_sensors_came_says_when_they_came(pipe: Pipe) -> None:
    aged(pipe)
    pipe.db.execute("ALTER QUERY seen SET BEGIN (NOW - 10 HOURS)")
    pipe.engine.drain()
    assert pipe.db.invoke("seen").complete_from_us == BEGAN_US


def test_a_window_that_reaches_back_before_retention_says_what_is_kept(pipe: Pipe) -> None:
    aged(pipe, "WITH (retention = '10 MINUTES')")
    assert pipe.db.invoke("seen").complete_from_us is None  # nothing has been thrown away yet
    table = pipe.db.catalog.state.tables["probes"].id
    pipe.db.housekeeper.tend(table)
    pipe.engine.drain()
    found = pipe.db.invoke("seen")
    assert found.now_us is not None
    assert found.complete_from_us == found.now_us - 600 * SECOND
    assert found.table.column("value").to_pylist() == [2.0]
