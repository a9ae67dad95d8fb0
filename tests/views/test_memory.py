"""Nothing grows with what is gone: dropped queries and tables, questions asked once."""

from __future__ import annotations

import threading

import pytest

from penstock.cycle.cut import Limits
from penstock.errors import PenstockError
from penstock.expr.expression import Call, Column, Literal
from penstock.types import BOOLEAN, TEXT
from tests.support.pipe import Pipe


def test_masks_of_questions_asked_once_do_not_pile_up(pipe: Pipe) -> None:
    pipe.probes()
    pipe.engine.drain()
    table = pipe.db.catalog.state.tables["probes"].id
    store = pipe.db.standing.store
    for number in range(1000):
        asked = Call("eq", (Column("place", TEXT, static=True), Literal(f"p{number}", TEXT)), BOOLEAN)
        assert not store.passing(table, asked).any()
    assert len(store._masks) <= 256


def test_nothing_of_a_dropped_table_is_kept_or_snapshotted(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes WHERE place = 'north'")
    pipe.push(1.0)
    pipe.engine.drain()
    assert pipe.answer("seen") == [1.0]
    pipe.db.execute("DROP TABLE probes CASCADE")
    pipe.engine.drain()
    store = pipe.db.standing.store
    assert (store.newest, store.heard, store.rows, store._masks, store.answers) == ({}, {}, {}, {}, {})
    assert store.to_snapshot().results.num_rows == 0


def test_a_table_and_a_query_with_the_names_of_dropped_ones_start_from_nothing(pipe: Pipe) -> None:
    for value in (1.0, 2.0):
        pipe.probes()
        pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
        pipe.push(value)
        pipe.engine.drain()
        assert pipe.answer("seen") == [value]
        pipe.restart()
        assert pipe.answer("seen") == [value]
        pipe.db.execute("DROP TABLE probes CASCADE")
    pipe.engine.drain()
    with pytest.raises(PenstockError, match="there is no query"):
        pipe.db.invoke("seen")


def test_who_waits_for_a_filling_query_hears_that_it_was_dropped(pipe: Pipe) -> None:
    pipe.probes()
    for value in range(3):
        pipe.push(float(value))
    pipe.engine.drain()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.engine.cycle(Limits(1000, 1))
    standing = pipe.db.standing
    checked = standing.is_ready

    def dropped_meanwhile(name: str, timeout_s: float) -> bool:
        found = checked(name, 0.0)
        pipe.db.execute("DROP QUERY seen")
        pipe.engine.cycle()
        return found

    standing.is_ready = dropped_meanwhile  # type: ignore[method-assign]
    threads = threading.active_count()
    with pytest.raises(PenstockError) as caught:
        standing.wait_ready("seen", 0.1)
    assert caught.value.condition == "query_not_found"
    assert threading.active_count() < threads + 5
