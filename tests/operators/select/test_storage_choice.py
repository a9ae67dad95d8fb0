"""complete, partial, none: three ways to keep an answer, one answer; and what EXPLAIN says of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.operators.select import storage_choice
from tests.support.pipe import Pipe


@pytest.fixture
def pipe(pipes: Callable[..., Pipe]) -> Pipe:
    found = pipes()
    found.probes()
    found.push(0.0)
    found.engine.drain()
    return found


def create(pipe: Pipe, chosen: str, name: str = "seen") -> int:
    where = "WHERE value > 1 BEGIN (NOW - 1 HOUR) END (NOW)"
    pipe.db.execute(f"CREATE QUERY {name} WITH (strategy = '{chosen}') AS SELECT value FROM probes {where}")
    pipe.engine.drain()
    return pipe.db.catalog.state.queries[name].id


def explained(pipe: Pipe, name: str = "seen") -> str:
    return "\n".join(row["plan"] for row in pipe.db.execute(f"EXPLAIN {name}").table.to_pylist())


@pytest.mark.parametrize("chosen", ["complete", "partial", "none"])
def test_all_strategies_give_the_same_rows_and_explain_names_them(pipe: Pipe, chosen: str) -> None:
    query_id = create(pipe, chosen)
    for value in (2.0, 1.0, 3.0):
        pipe.push(value)
        pipe.engine.drain()
    assert pipe.answer("seen") == [2.0, 3.0]
    assert pipe.db.standing.strategy_of(query_id) == chosen
    assert f"answer kept: {chosen}, because a user chose it" in explained(pipe)
    pipe.restart()
    assert pipe.answer("seen") == [2.0, 3.0]


def test_a_query_that_keeps_nothing_meets_no_rows_and_takes_no_memory(pipe: Pipe) -> None:
    query_id = create(pipe, "none")
    pipe.push(2.0)
    pipe.engine.drain()
    assert pipe.answer("seen") == [2.0]
    assert pipe.db.standing.memory_of(query_id) == 0
    assert pipe.db.standing.store.matched(query_id) == 0


def test_a_change_of_strategy_loses_nothing(pipe: Pipe) -> None:
    create(pipe, "partial")
    values = []
    for number, chosen in enumerate(["none", "complete", "none", "partial", "auto"]):
        pipe.push(2.0 + number)
        values.append(2.0 + number)
        pipe.db.execute(f"ALTER QUERY seen SET STRATEGY {chosen}")
        pipe.engine.drain()
        assert pipe.answer("seen") == values


def test_a_query_that_is_asked_for_often_is_kept_current_and_no_longer_when_nobody_asks(pipe: Pipe) -> None:
    query_id = create(pipe, "auto")
    standing = pipe.db.standing
    assert standing.strategy_of(query_id) == "partial"
    for number in range(storage_choice.LOOK_CYCLES + 2):
        pipe.push(2.0 + number)
        pipe.engine.cycle()
        for _ in range(2):
            pipe.answer("seen")
    assert standing.strategy_of(query_id) == "complete"
    assert standing.memory_of(query_id) > 0
    assert "keeping it current takes " in explained(pipe) and "requests a cycle" in explained(pipe)
    for number in range(2 * storage_choice.LOOK_CYCLES + 2):
        pipe.push(100.0 + number)
        pipe.engine.cycle()
    assert standing.strategy_of(query_id) == "partial"
    assert len(pipe.answer("seen")) == 3 * storage_choice.LOOK_CYCLES + 4


def test_a_query_that_was_asked_for_many_times_in_its_last_cycle_is_let_go_of_as_well() -> None:
    chooser = storage_choice.StorageChoice()
    for cycle in range(1, storage_choice.LOOK_CYCLES + 2):
        chooser.note(1, cycle)
        chooser.note(1, cycle)
    assert chooser.ready() == [1]
    last = storage_choice.LOOK_CYCLES + 2
    for _ in range(2 * storage_choice.LOOK_CYCLES):
        chooser.note(1, last)
    assert chooser.calm_down(last + storage_choice.LOOK_CYCLES) == []
    assert chooser.calm_down(last + 2 * storage_choice.LOOK_CYCLES) == [1]
    assert chooser.ready() == []


@pytest.mark.parametrize(
    ("cut_ms", "move_ms", "asked", "ready"),
    [
        (10.0, 0.1, 1, True),  # a long window of which little changes
        (0.1, 10.0, 3, False),
        (1.0, 1.0, 1, None),  # too near to change for
        (None, None, 1, False),
        (None, None, 2, True),
    ],
)
def test_the_cheaper_way_by_what_both_took_is_chosen(
    cut_ms: float | None, move_ms: float | None, asked: int, ready: bool | None
) -> None:
    for began_ready in (False, True):
        chooser = storage_choice.StorageChoice()
        for cycle in range(3 * storage_choice.LOOK_CYCLES):
            # First as often as makes it kept current, or not.
            first = cycle < storage_choice.LOOK_CYCLES
            for _ in range((2 if began_ready else 1) if first else asked):
                chooser.note(1, cycle)
            if not first and cut_ms is not None and move_ms is not None:
                chooser.note_ms(1, cut_ms, "cut_ms")
                chooser.note_ms(1, move_ms, "move_ms")
        assert chooser.ready() == ([1] if (began_ready if ready is None else ready) else [])


def test_windows_of_rows_are_cut_when_asked_whatever_somebody_chose(pipe: Pipe) -> None:
    pipe.db.execute("CREATE QUERY last WITH (strategy = 'none') AS SELECT value FROM probes BEGIN (LAST 2 ROWS)")
    pipe.push(2.0)
    pipe.engine.drain()
    assert pipe.answer("last") == [0.0, 2.0]
    assert pipe.db.standing.strategy_of(pipe.db.catalog.state.queries["last"].id) == "partial"


ALWAYS_PARTIAL = {
    "SELECT AVG(value) FROM probes BEGIN (NOW - 1 HOUR) END (NOW)": "slices are kept",
    "SELECT a.value FROM probes a, probes b WINDOW(a,b) = 1 SECOND": "a join's results are kept",
    "SELECT COUNT(*) FROM probes a, probes b WINDOW(a,b) = 1 SECOND BEGIN (NOW - 1 HOUR) END (NOW)": "slices of a join",
    "SELECT value FROM probes BEGIN (LAST 2 ROWS)": "a window of rows is cut when asked",
    "SELECT RESAMPLE(b.value, 1 SECOND) FROM probes a, probes b BEGIN (NOW - 1 HOUR) END (NOW)": "values are found in the log",
}


@pytest.mark.parametrize("chosen", ["complete", "none"])
@pytest.mark.parametrize("asks", ALWAYS_PARTIAL)
def test_a_strategy_that_a_query_cannot_have_is_noted_and_explained(pipe: Pipe, asks: str, chosen: str) -> None:
    done = pipe.db.execute(f"CREATE QUERY seen WITH (strategy = '{chosen}') AS {asks}")
    assert len(done.notices) == 1
    assert done.notices[0].startswith(f'strategy "{chosen}" changes nothing for query "seen": {ALWAYS_PARTIAL[asks]}')
    pipe.engine.drain()
    assert f"strategy {chosen}, as requested, changes nothing: {ALWAYS_PARTIAL[asks]}" in explained(pipe)
    assert (
        pipe.db.execute("ALTER QUERY seen SET STRATEGY complete").notices[0].startswith('strategy "complete" changes')
    )
    for fitting in ("partial", "auto"):
        assert pipe.db.execute(f"ALTER QUERY seen SET STRATEGY {fitting}").notices == ()
        pipe.engine.drain()
        assert "changes nothing" not in explained(pipe)


def test_a_window_that_leaves_no_choice_is_noted_when_it_is_set(pipe: Pipe) -> None:
    create(pipe, "complete")
    (notice,) = pipe.db.execute("ALTER QUERY seen SET BEGIN (LAST 2 ROWS)").notices
    assert notice == 'strategy "complete" changes nothing for query "seen": a window of rows is cut when asked'
    assert pipe.db.execute("ALTER QUERY seen SET BEGIN (NOW - 1 HOUR) END (NOW)").notices == ()


def test_records_that_register_queries_are_told_as_well(pipe: Pipe) -> None:
    asked = {"name": "mean", "sql": "SELECT AVG(value) FROM probes", "strategy": "none"}
    (became,) = pipe.db.executor.register([asked], "none", None)
    assert became["error"] is None and became["notice"].startswith('strategy "none" changes nothing for query "mean"')
