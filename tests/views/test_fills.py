"""Queries that read history while its oldest part goes, or while somebody changes how they are kept."""

from __future__ import annotations

from penstock.cycle import cut
from penstock.cycle.cut import Limits
from penstock.operators.select.step import MATRIX_MIN_QUERIES
from penstock.sql.plan import plan_from_json
from tests.support.pipe import Pipe
from tests.support.watched import watched


def test_retention_that_passes_a_fill_in_progress_does_not_fail_the_query(pipe: Pipe) -> None:
    """A cycle that is planned but not committed protects nothing yet, so a floor can overtake its fill."""
    pipe.probes()
    for value in range(6):
        pipe.push(float(value))
    pipe.engine.drain()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    limits = Limits(1000, 1)
    pipe.engine.cycle(limits)
    pipe.engine.cycle(limits)
    table = pipe.db.catalog.state.tables["probes"].id
    assert pipe.engine.position().fill == {1: (1, 6)}
    pipe.db.catalog.retain(table, 4)
    pipe.engine.cycle(limits)
    assert pipe.db.standing.retained(table) == 4
    pipe.db.housekeeper.tend(table)
    assert len(list((pipe.db.folder.log / str(table)).iterdir())) == 2
    pipe.engine.drain()
    assert pipe.answer("seen") == [4.0, 5.0]


def test_a_history_that_is_being_read_is_read_to_its_end_whatever_strategy_comes_meanwhile(pipe: Pipe) -> None:
    pipe.probes()
    for value in range(6):
        pipe.push(float(value))
    pipe.engine.drain()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.engine.cycle(Limits(1000, 2))
    pipe.engine.cycle(Limits(1000, 2))
    assert pipe.engine.position().fill == {1: (2, 6)}
    pipe.db.execute("ALTER QUERY seen SET STRATEGY none")
    pipe.engine.cycle(Limits(1000, 2))
    pipe.db.execute("ALTER QUERY seen SET STRATEGY partial")
    pipe.engine.drain()
    assert pipe.answer("seen") == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    pipe.restart()
    assert pipe.answer("seen") == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_fills_of_several_tables_go_on_without_reading_their_plans_again(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE TABLE others (id INT PRIMARY KEY, reading STREAM (value DOUBLE))")
    pipe.db.execute("INSERT INTO others VALUES (1, NULL)")
    for value in range(6):
        pipe.push(float(value))
        pipe.db.push("others", [{"id": 1, "value": 10.0 + value}])
    pipe.engine.drain()
    for table in ("probes", "others"):
        pipe.db.execute(f"CREATE QUERY of_{table} AS SELECT value FROM {table} BEGIN (NOW - 1 HOUR) END (NOW)")
    limits = Limits(1000, 4)
    pipe.engine.cycle(limits)
    read: list[object] = []
    with watched(plan_from_json, tell=read.append, by=cut.__name__):
        while pipe.engine.position().fill:
            pipe.engine.cycle(limits)
    assert read == []
    assert pipe.answer("of_probes") == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert pipe.answer("of_others") == [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]


def test_a_window_of_rows_answers_while_the_window_over_time_that_replaces_it_fills(pipe: Pipe) -> None:
    pipe.probes()
    # With so many queries the matches of windows over time are in the table's match store.
    others = [f"SELECT value FROM probes WHERE value > {n}" for n in range(MATRIX_MIN_QUERIES)]
    pipe.db.register([{"name": f"q{n}", "sql": sql} for n, sql in enumerate(others)])
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes WHERE place = 'north' BEGIN (LAST 3 ROWS)")
    pipe.push(0.0, 1.0, 2.0, 3.0)
    pipe.engine.drain()
    pipe.db.execute("ALTER QUERY seen SET BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.push(4.0, 5.0)
    altered = pipe.engine.cycle(Limits(1000, 1))
    assert altered is not None and altered.end.fill
    assert pipe.answer("seen") == [3.0, 4.0, 5.0]
    pipe.db.execute("ALTER QUERY seen SET BEGIN (LAST 2 ROWS)")
    again = pipe.engine.cycle(Limits(1000, 1))
    assert again is not None and again.end.fill
    assert pipe.answer("seen") == [3.0, 4.0, 5.0]
    pipe.engine.drain()
    assert pipe.answer("seen") == [4.0, 5.0]
    assert pipe.db.standing.invoke("seen", altered.cycle).table["value"].to_pylist() == [3.0, 4.0, 5.0]
