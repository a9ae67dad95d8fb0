"""The engine's own decisions, without a JVM."""

from __future__ import annotations

import contextlib
import threading
import time
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


class Frame:
    """What Spark hands to foreachBatch."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def toArrow(self) -> pa.Table:
        return self._table


def of_cycle(start: Offset, end: Offset) -> Frame:
    payload = orjson.dumps({"start": start.to_json(), "end": end.to_json()})
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


@pytest.fixture
def engine(folder: DataFolder, commits: list[CommitRecord], monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(engine_module, "stop_session", lambda spark: None)
    return Engine(folder, Settings(data=str(folder.root)), commits.append)


def test_a_pipeline_that_fails_again_and_again_waits_longer_each_time_and_is_not_called_ready(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        if seconds == 0.1:
            return len(waits) > 3
        waits.append(seconds)
        return False

    ready: list[bool] = []

    def restart() -> None:
        engine._query = Lives(1)  # type: ignore[assignment]

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

    monkeypatch.setattr(engine, "_restart", restart)
    monkeypatch.setattr(engine._stopping, "wait", wait)
    engine._query = Query(alive=False)  # type: ignore[assignment]
    engine._supervise()
    assert waits == [0.2, 1.0, 2.0, 5.0]
    assert not any(ready)


def test_after_a_cycle_a_restarted_pipeline_is_ready(
    engine: Engine, folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([False, False, False, True])
    states: list[tuple[bool, str | None]] = []

    def restart() -> None:
        engine._query = Query()  # type: ignore[assignment]

    def wait(seconds: float) -> bool:
        states.append((engine.running, engine.failure))
        if len(states) == 3:
            engine._commit_cycle(0, of_cycle(Offset(folder.read_id()), Offset(folder.read_id(), now_us=5)), 0)  # type: ignore[arg-type]
        return seconds == 0.1 and next(looks)

    monkeypatch.setattr(engine, "_restart", restart)
    monkeypatch.setattr(engine._stopping, "wait", wait)
    engine._query = Query(alive=False)  # type: ignore[assignment]
    engine._supervise()
    assert states[2] == (False, "out of order")
    assert (engine.running, engine.failure, engine.restarts) == (True, None, 1)


def test_stopping_during_a_restart_waits_for_the_new_spark_and_ends_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[object] = []
    starting = threading.Event()

    def start_spark() -> None:
        starting.set()
        assert engine._stopping.wait(60)
        time.sleep(0.05)  # who does not wait has long gone on
        engine.spark = "new"  # type: ignore[assignment]

    monkeypatch.setattr(engine_module, "stop_session", ended.append)
    monkeypatch.setattr(engine_module, "SUPERVISOR_S", 60.0)
    monkeypatch.setattr(engine, "_start_spark", start_spark)
    monkeypatch.setattr(engine, "_start_query", lambda: pytest.fail("no query after stop"))
    engine._query = Query(alive=False)  # type: ignore[assignment]
    engine._supervisor.start()
    assert starting.wait(60)
    engine.stop()
    assert ended == ["new"]
    assert not engine._supervisor.is_alive()


def test_the_supervisor_goes_on_after_an_exception_of_its_own(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    restarted = threading.Event()

    def failure_text() -> str:
        asked.append(1)
        if len(asked) == 1:
            raise RuntimeError("py4j says something new")
        return "it died"

    def restart() -> None:
        engine._query = Query()  # type: ignore[assignment]
        restarted.set()

    monkeypatch.setattr(engine, "_failure_text", failure_text)
    monkeypatch.setattr(engine, "_restart", restart)
    engine._query = Query(alive=False)  # type: ignore[assignment]
    (supervisor,) = engine.services()
    supervisor.start()
    assert restarted.wait(60)
    assert supervisor.facts()["failures"] == 1 and supervisor.critical and supervisor.failure is None
    engine._stopping.set()
    supervisor.join(60)
    assert not supervisor.is_alive()


def test_a_query_starts_after_the_commit_that_is_being_written(
    engine: Engine, folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = Offset(folder.read_id(), now_us=7)
    begun: list[Offset] = []
    look = engine._start

    def note() -> Offset:
        begun.append(look())
        return begun[-1]

    def start() -> None:
        with contextlib.suppress(AttributeError):  # there is no Spark
            engine._start_query()

    monkeypatch.setattr(engine, "_start", note)
    monkeypatch.setattr(engine, "spark", object())
    thread = threading.Thread(target=start, daemon=True)
    write = engine.commits.write

    def slow(*arguments: Any) -> CommitRecord | None:
        thread.start()
        thread.join(0.3)
        return write(*arguments)

    monkeypatch.setattr(engine.commits, "write", slow)
    monkeypatch.setattr(engine, "_warmed", True)
    engine._commit_cycle(0, of_cycle(Offset(folder.read_id()), end), 0)  # type: ignore[arg-type]
    thread.join(10)
    assert begun == [end]


def test_stopping_ends_the_pause_of_a_supervisor_that_failed(engine: Engine) -> None:
    engine.stop()
    assert engine._supervisor.stopping


def test_a_statement_that_comes_while_spark_starts_does_not_get_the_workers_of_cycles(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(engine_module, "start_session", lambda *_: spark)
    Engine(folder, Settings(data=str(folder.root)), lambda record: None)._start_spark()
    statement.join()
    assert seen == {"PenstockSource": {}, "HistorySource": {"PENSTOCK_WORKERS": "history"}}


def test_a_new_session_gets_its_functions_behind_the_first_query_and_after_a_restart_before_it(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(folder, Settings(data=str(folder.root)), lambda record: None)
    steps: list[str] = []
    failing = [False]

    def start_spark() -> None:
        engine.spark = object()  # type: ignore[assignment]
        steps.append("session")

    def register(spark: object) -> None:
        steps.append("functions")
        if failing[0]:
            raise RuntimeError("the JVM is busy")

    monkeypatch.setattr(engine, "_start_spark", start_spark)
    monkeypatch.setattr(engine, "_start_query", lambda: steps.append("query"))
    monkeypatch.setattr(engine, "_supervisor", SimpleNamespace(start=lambda: None))
    monkeypatch.setattr(engine_module, "register_functions", register)
    engine.start()
    assert steps == ["session", "query", "functions"]

    monkeypatch.setattr(engine_module, "_answers", lambda spark: False)
    failing[0] = True
    with pytest.raises(RuntimeError):
        engine._restart()
    assert steps[3:] == ["session", "functions"], "no cycle, and so no statement, without the functions"

    monkeypatch.setattr(engine_module, "_answers", lambda spark: True)
    failing[0] = False
    engine._restart()
    engine._restart()
    assert steps[5:] == ["functions", "query", "query"]
