"""The engine's own decisions, without a JVM."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pyarrow as pa
import pytest

from penstock.cycle.commits import RESULT_SCHEMA, CommitRecord
from penstock.cycle.folder import DataFolder, FolderLock
from penstock.cycle.offset import Offset
from penstock.pipeline import engine as engine_module
from penstock.pipeline.engine import Engine
from penstock.pipeline.jobs import history_workers
from penstock.pipeline.source import PenstockSource
from penstock.settings import Settings
from tests.pipeline.fake_spark import FakeSpark, sessions
from tests.support.waiting import await_waiting


class Frame:
    """What Spark hands to foreachBatch."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def toArrow(self) -> pa.Table:
        return self._table


def of_cycle(start: Offset, end: Offset) -> Frame:
    payload = orjson.dumps({"start": start.to_json(), "end": end.to_json(), "tasks": 1})
    rows = [[0], ["cycle"], [0], [0], [payload]]
    return Frame(pa.table([pa.array(c, f.type) for c, f in zip(rows, RESULT_SCHEMA, strict=True)], RESULT_SCHEMA))


class Query:
    """A streaming query that lives as long as it is told to."""

    def __init__(self, alive: bool = True) -> None:
        self.isActive = alive
        self.status: dict[str, Any] = {}

    def exception(self) -> Exception:
        return ValueError("out of order")

    def stop(self) -> None:
        self.isActive = False


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    found = DataFolder(tmp_path / "data")
    FolderLock(found).release()
    return found


@pytest.fixture
def commits() -> list[CommitRecord]:
    return []


class Stopping(threading.Event):
    """Asks a test instead of waiting."""

    def __init__(self, wait: Callable[[float], bool]) -> None:
        super().__init__()
        self._wait = wait

    def wait(self, timeout: float | None = None) -> bool:
        return self._wait(timeout or 0.0)


@pytest.fixture
def make_engine(folder: DataFolder, commits: list[CommitRecord]) -> Callable[..., Engine]:
    def make(make_query: Callable[[], Query], stop: Callable[..., None] = lambda spark: None, **named: Any) -> Engine:
        made = Engine(folder, Settings(data=str(folder.root)), commits.append, sessions=sessions(stop=stop), **named)
        made.spark = FakeSpark(make_query)  # type: ignore[assignment]
        return made

    return make


def test_a_pipeline_that_fails_again_and_again_waits_longer_each_time_and_is_not_called_ready(
    make_engine: Callable[..., Engine],
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        if seconds == 0.1:
            return len(waits) > 3
        waits.append(seconds)
        return False

    ready: list[bool] = []

    class Lives(Query):
        def __init__(self, looks: int) -> None:
            super().__init__()
            self._looks = looks

        @property  # type: ignore[override]
        def isActive(self) -> bool:
            ready.append(engine.running)
            self._looks -= 1
            return self._looks >= 0

        @isActive.setter
        def isActive(self, value: bool) -> None:
            pass

    engine = make_engine(lambda: Lives(1), stopping=Stopping(wait))
    engine.query = Query(alive=False)  # type: ignore[assignment]
    engine._supervise()
    assert waits == [0.2, 1.0, 2.0, 5.0]
    assert not any(ready)


def test_after_a_cycle_a_restarted_pipeline_is_ready(make_engine: Callable[..., Engine], folder: DataFolder) -> None:
    looks = iter([False, False, False, True])
    states: list[tuple[bool, str | None]] = []

    def wait(seconds: float) -> bool:
        states.append((engine.running, engine.failure))
        if len(states) == 3:
            engine._commit_cycle(1, of_cycle(Offset(folder.read_id()), Offset(folder.read_id(), now_us=5)), 0)  # type: ignore[arg-type]
        return seconds == 0.1 and next(looks)

    engine = make_engine(Query, stopping=Stopping(wait))
    engine.query = Query(alive=False)  # type: ignore[assignment]
    engine._supervise()
    assert states[2] == (False, "out of order")
    assert (engine.running, engine.failure, engine.restarts) == (True, None, 1)


def test_stopping_during_a_restart_waits_for_the_new_spark_and_ends_it(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[object] = []
    starting, stopping, stopper = threading.Event(), threading.Event(), threading.current_thread()
    registry = SimpleNamespace(register=lambda source: None)
    spark = SimpleNamespace(name="new", dataSource=registry, sparkContext=SimpleNamespace(environment={}))

    def start(*_: object) -> Any:  # without `readStream`: a query after the stop would fail
        starting.set()
        assert stopping.wait(60)
        await_waiting(stopper)
        return spark

    def stop(session: Any) -> None:
        ended.append(session.name)

    monkeypatch.setattr(engine_module, "SUPERVISOR_S", 60.0)
    settings = Settings(data=str(folder.root))
    engine = Engine(folder, settings, lambda record: None, sessions=sessions(start, stop), stopping=stopping)
    engine.query = Query(alive=False)  # type: ignore[assignment]
    engine._supervisor.start()
    assert starting.wait(60)
    engine.stop()
    assert ended == ["new"]
    assert engine._starts == 0, "no query after stop"
    assert not engine._supervisor.is_alive()


def test_the_supervisor_goes_on_after_an_exception_of_its_own(make_engine: Callable[..., Engine]) -> None:
    restarted = threading.Event()
    first = Query()

    def is_waiting() -> bool:
        if first.isActive:
            first.isActive = False
            raise RuntimeError("py4j says something new")
        return False

    def make_query() -> Query:
        restarted.set()
        return Query()

    engine = make_engine(make_query)
    engine.is_waiting = is_waiting
    engine.query = first  # type: ignore[assignment]
    (supervisor,) = engine.services()
    supervisor.start()
    assert restarted.wait(60)
    assert supervisor.facts()["failures"] == 1 and supervisor.critical and supervisor.failure is None
    engine._stopping.set()
    supervisor.join(60)
    assert not supervisor.is_alive()


def test_a_query_starts_after_the_commit_that_is_being_written(folder: DataFolder) -> None:
    end = Offset(folder.read_id(), now_us=7)
    engine, spark = Engine(folder, Settings(data=str(folder.root)), lambda record: None), FakeSpark(Query)
    engine.spark = spark  # type: ignore[assignment]
    begun = spark.starts
    thread = threading.Thread(target=engine._start_query, daemon=True)

    def slow(step: str) -> None:
        if step == "commit:begin":
            thread.start()
            thread.join(0.3)

    engine.commits.crash_point = slow
    engine._commit_cycle(0, of_cycle(Offset(folder.read_id()), end), 0)  # type: ignore[arg-type]
    thread.join(10)
    assert begun == [end]


def test_stopping_ends_the_pause_of_a_supervisor_that_failed(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine(Query)
    engine.stop()
    assert engine._supervisor.stopping


def test_a_statement_that_comes_while_spark_starts_does_not_get_the_workers_of_cycles(folder: DataFolder) -> None:
    """The thread of a statement registers a function at the moment at which the engine registers its source."""
    environment: dict[str, str] = {}
    seen: dict[str, dict[str, str]] = {}
    inside, go_on = threading.Event(), threading.Event()

    def register_function() -> None:
        with history_workers(spark):
            inside.set()
            go_on.wait(60)

    statement = threading.Thread(target=register_function)

    def register(source: type) -> None:
        if source is PenstockSource:
            statement.start()
            inside.wait(0.2)
        seen[source.__name__] = dict(environment)
        go_on.set()

    registry = SimpleNamespace(register=register)
    spark: Any = SimpleNamespace(dataSource=registry, sparkContext=SimpleNamespace(environment=environment))
    started = sessions(lambda *_: spark)
    Engine(folder, Settings(data=str(folder.root)), lambda record: None, sessions=started)._start_spark()
    statement.join()
    assert seen == {"PenstockSource": {}, "HistorySource": {"PENSTOCK_WORKERS": "history"}}


def test_a_new_session_gets_its_functions_behind_the_first_query_and_after_a_restart_before_it(
    folder: DataFolder,
) -> None:
    steps: list[str] = []
    failing = [False]

    def make_query() -> Query:
        steps.append("query")
        return Query()

    def start(*_: object) -> FakeSpark:
        steps.append("session")
        return FakeSpark(make_query)

    def add_functions(spark: object) -> None:
        steps.append("functions")
        if failing[0]:
            raise RuntimeError("the JVM is busy")

    started = sessions(start, add_functions=add_functions)
    engine = Engine(folder, Settings(data=str(folder.root)), lambda record: None, sessions=started)
    engine.start()
    try:
        assert steps == ["session", "query", "functions"]

        engine.spark.stopped = True  # type: ignore[union-attr]
        failing[0] = True
        with pytest.raises(RuntimeError):
            engine._restart()
        assert steps[3:] == ["session", "functions"], "no cycle, and so no statement, without the functions"

        failing[0] = False
        engine._restart()
        engine._restart()
        assert steps[5:] == ["functions", "query", "query"]
    finally:
        engine.stop()


@pytest.mark.parametrize(("data_available", "looks_least"), [(False, 1), (True, 4)])
def test_stopping_waits_for_a_cycle_but_not_for_the_planner_that_waits_for_readings(
    make_engine: Callable[..., Engine], data_available: bool, looks_least: int
) -> None:
    looks = []

    class Busy(Query):
        @property  # type: ignore[override]
        def status(self) -> dict[str, Any]:
            looks.append(time.monotonic())
            return {"isTriggerActive": len(looks) < 4 or not data_available, "isDataAvailable": data_available}

        @status.setter
        def status(self, value: dict[str, Any]) -> None:
            pass

    engine = make_engine(Busy)
    engine._start_query()
    engine.stop()
    assert len(looks) == looks_least
