"""A query that cycles fail with is taken out of them; all others go on, and it comes back when it is resumed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.operators.aggregate.family import FamilyStore
from penstock.operators.select.step import MATRIX_MIN_QUERIES
from tests.support.pipe import Pipe
from tests.support.trap import Trap, trapped

MANY = 90
FUNCTIONS = {
    "loops": "while v == 13:\n    try:\n        pass\n    except Exception:\n        pass\nreturn v",
    "hoards": "return v if v != 13 else len(bytes(10**15))",
    "sleeps": "import time\nif v == 13:\n    time.sleep(3600)\nreturn v",
}


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "data", function_timeout_ms=200)
    made.probes()
    yield made
    made.db.stop()


def ask(pipe: Pipe, count: int = MANY) -> None:
    """Selections that differ in a constant; with so many they are answered as one matrix."""
    pipe.db.register([(f"q{i}", f"SELECT value FROM probes WHERE value > {i}") for i in range(count)])
    pipe.engine.drain()


def number_of(pipe: Pipe, name: str) -> int:
    return pipe.db.catalog.state.queries[name].id


def refused(pipe: Pipe, name: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        pipe.answer(name)
    return caught.value


def create_function(pipe: Pipe, name: str, body: str, replace: str = "") -> None:
    pipe.db.execute(f"CREATE {replace} FUNCTION {name}(v DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS $$\n{body}\n$$")


@pytest.fixture
def trap() -> Iterator[Trap]:
    """An operator that fails as a bug of any other would."""
    with trapped() as made:
        yield made


def failing_with(bad: set[int], failure: Exception) -> Callable[[frozenset[int], int], None]:
    def run(queries: frozenset[int], table_id: int) -> None:
        if bad & queries:
            raise failure

    return run


@pytest.mark.parametrize("count", [5, MANY])
def test_a_query_whose_kernel_raises_is_taken_out_and_the_others_go_on(trap: Trap, pipe: Pipe, count: int) -> None:
    ask(pipe, count)
    assert (count >= MATRIX_MIN_QUERIES) == (count == MANY)
    pipe.push(1.5, 3.5)
    pipe.engine.drain()
    trap.run = failing_with({number_of(pipe, "q2")}, RuntimeError("no kernel for this"))
    pipe.push(4.5)
    assert pipe.engine.cycle() is not None
    assert pipe.answer("q1") == [1.5, 3.5, 4.5] and pipe.answer("q3") == [3.5, 4.5]
    failure = refused(pipe, "q2")
    assert failure.condition == "query_quarantined"
    assert "RuntimeError: no kernel for this" in failure.message and 'query "q2"' in failure.message
    assert failure.hint is not None and "ALTER QUERY q2 RESUME" in failure.hint
    assert pipe.db.query("q2")["state"] == "FAILED" and "no kernel" in pipe.db.query("q2")["error"]
    definition = pipe.db.catalog.state.queries["q2"]
    assert definition.quarantined is not None and definition.paused
    pipe.push(5.5)
    pipe.engine.drain()
    assert pipe.answer("q3") == [3.5, 4.5, 5.5]
    assert refused(pipe, "q2").condition == "query_quarantined"
    trap.spring()
    pipe.restart()
    assert refused(pipe, "q2").condition == "query_quarantined"
    assert pipe.db.health().details["quarantined_queries"] == 1
    pipe.db.execute("ALTER QUERY q2 RESUME")
    pipe.engine.drain()
    assert pipe.answer("q2") == [3.5, 4.5, 5.5]
    assert pipe.db.query("q2")["state"] == "RUNNING"
    assert "quarantined_queries" not in pipe.db.health().details


def test_several_bad_queries_are_found_in_one_cycle(trap: Trap, pipe: Pipe) -> None:
    ask(pipe)
    bad = {number_of(pipe, name) for name in ("q0", "q7", "q8", "q77")}
    trap.run = failing_with(bad, RuntimeError("no kernel for this"))
    pipe.push(80.5)
    assert pipe.engine.cycle() is not None
    assert {q.id for q in pipe.db.catalog.state.queries.values() if q.quarantined} == bad
    assert pipe.answer("q78") == [80.5]


def test_a_query_that_cannot_even_be_prepared_stops_no_other(trap: Trap, pipe: Pipe) -> None:
    def picky(query_id: int) -> None:
        if query_id == number_of(pipe, "q1"):
            raise TypeError("what is this?")

    trap.follow = picky
    ask(pipe, 3)
    pipe.push(2.5)
    pipe.engine.drain()
    assert pipe.answer("q0") == pipe.answer("q2") == [2.5]
    assert "TypeError: what is this?" in refused(pipe, "q1").message


def test_an_aggregation_that_raises_stops_no_other(trap: Trap, pipe: Pipe) -> None:
    ask(pipe, 2)
    pipe.db.execute("CREATE QUERY worst AS SELECT MAX(value) AS m FROM probes WHERE value > 1 BEGIN (NOW - 1 HOUR)")
    pipe.db.execute("CREATE QUERY mean AS SELECT AVG(value) AS m FROM probes WHERE value > 2 BEGIN (NOW - 1 HOUR)")
    pipe.engine.drain()
    trap.run = failing_with({number_of(pipe, "worst")}, ZeroDivisionError("in a partial"))
    pipe.push(2.5, 3.5)
    pipe.engine.drain()
    assert pipe.answer("mean", "m") == [3.0] and pipe.answer("q1") == [2.5, 3.5]
    assert "ZeroDivisionError" in refused(pipe, "worst").message


def test_rows_that_cannot_be_read_fail_the_queries_of_their_table(trap: Trap, pipe: Pipe) -> None:
    pipe.db.execute("CREATE TABLE others (id INT PRIMARY KEY, reading STREAM (value DOUBLE))")
    pipe.db.execute("INSERT INTO others VALUES (1, NULL)")
    ask(pipe, 2)
    pipe.db.execute("CREATE QUERY other AS SELECT value FROM others")
    pipe.engine.drain()
    probes = pipe.db.catalog.state.tables["probes"].id

    def picky(queries: frozenset[int], table_id: int) -> None:
        if table_id == probes:
            raise ValueError("not a buffer")

    trap.run = picky
    pipe.push(2.5)
    pipe.db.push("others", [{"id": 1, "value": 7.0}])
    pipe.engine.drain()
    assert pipe.answer("other") == [7.0]
    failure = refused(pipe, "q1")
    assert 'table "probes"' in failure.message and "not a buffer" in failure.message


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_a_function_that_would_hold_up_the_cycle_is_stopped_and_can_be_replaced(pipe: Pipe, name: str) -> None:
    ask(pipe, 3)
    create_function(pipe, name, FUNCTIONS[name])
    pipe.db.execute(f"CREATE QUERY bad AS SELECT {name}(value) AS x FROM probes WHERE value > 2")
    pipe.db.execute(f"CREATE QUERY worse AS SELECT value FROM probes WHERE {name}(value) > 3")
    pipe.push(4.0)
    pipe.engine.drain()
    assert pipe.answer("bad", "x") == [4.0]
    pipe.push(13.0)
    pipe.engine.drain()
    assert pipe.answer("q1") == [4.0, 13.0]
    for query in ("bad", "worse"):
        failure = refused(pipe, query)
        assert failure.condition == "query_quarantined" and f'function "{name}" was stopped' in failure.message
    # While a query that runs calls it, or with other types, it is not replaced.
    with pytest.raises(PenstockError) as caught:
        pipe.db.execute(f"CREATE OR REPLACE FUNCTION {name}(v DOUBLE) RETURNS TEXT LANGUAGE PYTHON AS $$ 'x' $$")
    assert caught.value.condition == "dependents_exist"
    create_function(pipe, name, "return v", "OR REPLACE")
    for query in ("bad", "worse"):
        pipe.db.execute(f"ALTER QUERY {query} RESUME")
    pipe.push(5.0)
    pipe.engine.drain()
    assert pipe.answer("bad", "x") == pipe.answer("worse") == [4.0, 13.0, 5.0]
    with pytest.raises(PenstockError) as caught:
        create_function(pipe, name, "return -v", "OR REPLACE")
    assert caught.value.condition == "dependents_exist"


def test_a_slow_function_that_makes_progress_is_not_stopped(pipe: Pipe) -> None:
    create_function(pipe, "slow", "import time\ntime.sleep(0.03)\nreturn v")
    pipe.db.execute("CREATE QUERY patient AS SELECT slow(value) AS x FROM probes")
    pipe.engine.drain()
    pipe.push(*[float(i) for i in range(30)])  # far more than the limit for all of them together
    pipe.engine.drain()
    assert pipe.answer("patient", "x") == [float(i) for i in range(30)]


def test_a_function_that_cannot_be_defined_stops_its_callers_only(pipe: Pipe) -> None:
    ask(pipe, 2)
    create_function(pipe, "broken", "import nonsense_that_is_not_there\ndef broken(v):\n    return v")
    pipe.db.execute("CREATE QUERY bad AS SELECT broken(value) AS x FROM probes")
    pipe.push(4.0)
    pipe.engine.drain()
    assert pipe.answer("q1") == [4.0]
    assert refused(pipe, "bad").condition == "function_failed"


def test_results_that_the_server_cannot_take_in_fail_their_query_only(trap: Trap, pipe: Pipe) -> None:
    ask(pipe, 3)
    bad = number_of(pipe, "q1")

    def picky(query_id: int) -> None:
        if query_id == bad:
            raise KeyError("match")

    trap.fold = picky
    pipe.push(7.0)
    pipe.engine.drain()
    assert pipe.answer("q0") == pipe.answer("q2") == [7.0]
    assert "KeyError" in refused(pipe, "q1").message
    pipe.restart()
    assert pipe.answer("q2") == [7.0]
    assert refused(pipe, "q1").condition == "query_quarantined"


def test_slices_that_the_server_cannot_take_in_fail_their_queries_only(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.db.execute("CREATE QUERY worst AS SELECT MAX(value) AS m FROM probes WHERE value > 1 BEGIN (NOW - 1 HOUR)")
    pipe.db.execute("CREATE QUERY mean AS SELECT AVG(value) AS m FROM probes WHERE value > 2 BEGIN (NOW - 1 HOUR)")
    pipe.engine.drain()
    fold = FamilyStore.fold

    def picky(self: FamilyStore, told: Any) -> None:
        if any(measure.partial == "extremes" for measure in self.measures):
            raise OverflowError("in a cell")
        fold(self, told)

    monkeypatch.setattr(FamilyStore, "fold", picky)
    pipe.push(2.5, 3.5)
    pipe.engine.drain()
    assert pipe.answer("mean", "m") == [3.0]
    assert "OverflowError: in a cell" in refused(pipe, "worst").message


def test_a_definition_that_a_state_cannot_take_in_fails_its_query_only(trap: Trap, pipe: Pipe) -> None:
    pipe.db.execute("CREATE QUERY mean AS SELECT AVG(value) AS m FROM probes BEGIN (NOW - 1 HOUR)")
    pipe.engine.drain()

    def picky(query_id: int) -> None:
        raise OverflowError("in a family")

    trap.define = picky
    pipe.db.execute("CREATE QUERY worst AS SELECT MAX(value) AS m FROM probes BEGIN (NOW - 1 HOUR)")
    pipe.engine.drain()
    trap.spring()
    assert "OverflowError: in a family" in refused(pipe, "worst").message
    pipe.push(2.5, 3.5)
    pipe.engine.drain()
    pipe.db.standing._trim()
    assert pipe.answer("mean", "m") == [3.0]


def test_rows_that_wait_before_the_entry_do_not_meet_the_query_again(pipe: Pipe) -> None:
    """The entry comes after all rows that were logged before it, and a cycle may not reach as far."""
    ask(pipe, 2)
    pipe.push(2.5)
    pipe.engine.drain()
    pipe.push(3.5)
    pipe.push(4.5)
    pipe.db.catalog.quarantine_queries({number_of(pipe, "q1"): "it was found to hang"})
    pipe.push(5.5)
    tasks = pipe.engine.tasks

    def rehearsed(*offsets: Any) -> Any:
        made = tasks(*offsets)
        assert all(number_of(pipe, "q1") in t.skipped.queries for t in made) or offsets[1].journal > before
        return made

    before = pipe.db.standing.store.state.position
    pipe.engine.tasks = rehearsed  # type: ignore[method-assign]
    pipe.engine._planner.limits = type(pipe.engine._planner.limits)(1, 1)
    assert pipe.engine.cycle() is not None
    assert pipe.answer("q0") == [2.5, 3.5]
    assert pipe.db.standing.store.state.position == before
    failure = refused(pipe, "q1")
    assert failure.condition == "query_quarantined" and "found to hang" in failure.message
    pipe.engine.drain()
    assert pipe.db.standing.store.state.position > before
    assert pipe.answer("q0") == [2.5, 3.5, 4.5, 5.5]
    pipe.db.execute("ALTER QUERY q1 RESUME")
    pipe.engine.drain()
    assert pipe.answer("q1") == [2.5, 3.5, 4.5, 5.5]


def test_a_subscriber_of_a_query_that_was_taken_out_is_told_so(pipe: Pipe) -> None:
    ask(pipe, 2)
    pipe.push(2.5)
    pipe.engine.drain()
    subscription = pipe.db.subscribe("q1")
    assert subscription.next(0) is not None
    pipe.db.catalog.quarantine_queries({number_of(pipe, "q1"): "it was found to hang"})
    pipe.push(3.5)
    pipe.engine.drain()
    with pytest.raises(PenstockError) as caught:
        subscription.next(1)
    assert caught.value.condition == "query_quarantined"


def test_a_query_with_latch_goes_on_only_when_it_is_resumed(pipe: Pipe) -> None:
    pipe.db.execute("CREATE QUERY top AS SELECT MAX(value) AS m, COUNT(*) AS n FROM probes GROUP BY LATCH")
    pipe.push(2.5)
    pipe.engine.drain()
    pipe.db.catalog.quarantine_queries({number_of(pipe, "top"): "it was found to hang"})
    pipe.push(3.5)
    pipe.engine.drain()
    assert refused(pipe, "top").condition == "query_quarantined"
    pipe.db.execute("ALTER QUERY top RESUME")
    pipe.push(1.0)
    pipe.engine.drain()
    assert (pipe.answer("top", "m"), pipe.answer("top", "n")) == ([3.5], [3])


def test_a_query_that_is_resumed_while_rows_wait_before_the_entry_stays_resumed(pipe: Pipe) -> None:
    ask(pipe, 2)
    pipe.push(2.5)
    pipe.engine.drain()
    pipe.push(3.5)
    pipe.push(4.5)
    pipe.db.catalog.quarantine_queries({number_of(pipe, "q1"): "it was found to hang"})
    pipe.db.execute("ALTER QUERY q1 RESUME")
    pipe.engine._planner.limits = type(pipe.engine._planner.limits)(1, 1)
    assert pipe.engine.cycle() is not None  # it ends before the entry, and leaves the query out
    assert pipe.db.catalog.state.queries["q1"].quarantined is None
    pipe.engine.drain()
    assert pipe.answer("q1") == [2.5, 3.5, 4.5]


def test_a_query_that_comes_while_an_unreadable_table_is_looked_into_is_taken_out_too(pipe: Pipe) -> None:
    ask(pipe, 2)
    table = pipe.db.catalog.state.tables["probes"].id
    pipe.db.catalog.quarantine_queries({number_of(pipe, "q0"): "cannot be read"}, table)
    pipe.engine.drain()
    assert refused(pipe, "q0").condition == refused(pipe, "q1").condition == "query_quarantined"


def test_a_table_that_no_query_reads_is_left_out_where_its_readings_stop_the_cycle(pipe: Pipe) -> None:
    table, before = pipe.db.catalog.state.tables["probes"].id, pipe.db.catalog.state.position
    pipe.push(1.0)
    assert pipe.db.quarantine.take({}, table)
    assert pipe.engine._planner.skipped(before).tables == {table}
    pipe.engine.drain()
    assert not pipe.db.quarantine.take({})


# -- processes that die

DEADLY = {
    "crash": ("import os\nif v == 13:\n    os._exit(0)\nreturn v", "ended with code 0"),
    "signal": ("import os, signal\nif v == 13:\n    os.kill(os.getpid(), signal.SIGBUS)\nreturn v", "SIGBUS"),
    # Asleep with the interpreter's lock, which no other thread gets: what a kernel does that never ends, without its work.
    "hang": ("import ctypes\nwhile v == 13:\n    ctypes.PyDLL(None).sleep(3600)\nreturn v", "did not end within"),
}


@pytest.fixture
def patient(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipe]:
    """Its limit for a try is far from what a slow machine takes; only a hang has to wait for it."""
    made = Pipe(tmp_path / "data", cycle_stall_s=6 if "hang" in request.node.name else 60)
    made.probes()
    yield made
    made.db.stop()


@pytest.mark.parametrize("how", list(DEADLY))
def test_a_query_that_takes_its_worker_down_is_found_by_processes_of_their_own(patient: Pipe, how: str) -> None:
    ask(patient, MANY)
    create_function(patient, "deadly", DEADLY[how][0])
    patient.db.execute("CREATE QUERY bad AS SELECT deadly(value) AS x FROM probes WHERE value > 2")
    patient.push(14.0)
    patient.engine.drain()
    patient.push(13.0)
    patient.push(15.0)
    start = patient.engine.position()
    assert patient.db.quarantine.trace(start, threading.Event())
    assert DEADLY[how][1] in (patient.db.catalog.state.queries["bad"].quarantined or "")
    assert [q.name for q in patient.db.catalog.state.queries.values() if q.quarantined] == ["bad"]
    patient.engine.drain()
    assert patient.answer("q12") == [14.0, 13.0, 15.0]
    assert refused(patient, "bad").condition == "query_quarantined"
    assert list(patient.db.folder.tmp.glob("trial-*")) == []
    patient.restart()
    assert refused(patient, "bad").condition == "query_quarantined"
    create_function(patient, "deadly", "return v", "OR REPLACE")
    patient.db.execute("ALTER QUERY bad RESUME")
    patient.engine.drain()
    assert patient.answer("bad", "x") == [14.0, 13.0, 15.0]


def test_a_function_that_kills_several_queries_is_found_with_all_its_callers(patient: Pipe) -> None:
    ask(patient, 20)
    create_function(patient, "deadly", DEADLY["crash"][0])
    create_function(patient, "harmless", "return v")
    for number in range(12):
        function = "deadly" if number % 2 else "harmless"
        patient.db.execute(f"CREATE QUERY f{number} AS SELECT {function}(value) + {number} AS x FROM probes")
    patient.engine.drain()
    patient.push(13.0)
    assert patient.db.quarantine.trace(patient.engine.position(), threading.Event())
    taken = [q.name for q in patient.db.catalog.state.queries.values() if q.quarantined]
    assert taken == [f"f{number}" for number in range(12) if number % 2]


def test_a_cycle_that_passes_takes_nothing_out(patient: Pipe) -> None:
    ask(patient, 3)
    patient.push(13.0)
    assert not patient.db.quarantine.trace(patient.engine.position(), threading.Event())
    patient.engine.drain()
    assert patient.answer("q1") == [13.0]


def test_a_look_into_a_cycle_ends_with_the_server(patient: Pipe) -> None:
    ask(patient, 3)
    patient.push(13.0)
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(PenstockError) as caught:
        patient.db.quarantine.trace(patient.engine.position(), stopping)
    assert caught.value.condition == "engine_failed"
