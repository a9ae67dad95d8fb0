"""A cycle that does not come while something waits for it: noticed, looked into and started again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from penstock.cycle.cut import Limits
from penstock.cycle.folder import DataFolder, FolderLock
from penstock.cycle.offset import Offset
from penstock.cycle.planner import KEEP_WARM_US, Planner
from penstock.pipeline import engine as engine_module
from penstock.pipeline.engine import FIRST_CYCLE_FACTOR, Engine, Progress
from penstock.settings import Settings
from tests.pipeline.fake_spark import FakeSpark, sessions
from tests.support.manual_clock import ManualClock


class Time:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


def test_only_what_waits_makes_a_stall(time: Time) -> None:
    waiting = False
    progress = Progress(30, lambda: waiting, time)
    for time.now in range(0, 500, 2):
        assert not progress.is_stalled(0)
    waiting = True
    stalled_at = next(now for time.now in range(500, 1000, 2) for now in [time.now] if progress.is_stalled(0))
    assert 498 + 30 * FIRST_CYCLE_FACTOR < stalled_at <= 502 + 30 * FIRST_CYCLE_FACTOR


def test_every_cycle_begins_a_new_wait_and_the_first_one_may_take_longer(time: Time) -> None:
    progress = Progress(30, lambda: True, time)
    progress.begin(7)
    time.now = 30 * FIRST_CYCLE_FACTOR
    assert not progress.is_stalled(7)
    for cycle in range(8, 20):
        assert not progress.is_stalled(cycle)
        time.now += 29
        assert not progress.is_stalled(cycle)
    time.now += 2
    assert progress.is_stalled(19)


def test_a_healthy_cycle_that_takes_long_gets_more_time_with_each_try(time: Time) -> None:
    """It must not be stopped again and again: a slow disk, a busy machine."""
    progress, needed, tries = Progress(30, lambda: True, time), 1000, 0
    while True:
        progress.begin(3)
        began = time.now
        while time.now < began + needed and not progress.is_stalled(3):
            time.now += 1
        if time.now >= began + needed:
            break
        progress.fruitless += 1
        tries += 1
    assert tries == 4
    assert not progress.is_stalled(4) and progress.fruitless == 0


class Query:
    """A streaming query that runs and never commits, until it is stopped."""

    def __init__(self, alive: bool = True) -> None:
        self.isActive = alive
        self.status: dict[str, Any] = {}
        self.stopped = 0

    def exception(self) -> Exception:
        return ValueError("a worker crashed")

    def stop(self) -> None:
        self.stopped += 1
        self.isActive = False


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    found = DataFolder(tmp_path / "data")
    FolderLock(found).release()
    return found


def supervised(
    folder: DataFolder,
    monkeypatch: pytest.MonkeyPatch,
    first: Query,
    after: Callable[[Engine], Query],
    restarts: int,
    found: bool = False,
) -> tuple[Engine, list[tuple[int, str | None, bool]], list[Offset]]:
    """Let the supervisor run until the engine was restarted so often: (rows' share, failure, ready) at each restart."""
    settings = Settings(data=str(folder.root), cycle_stall_s=0)
    engine = Engine(folder, settings, lambda record: None, sessions=sessions())
    seen: list[tuple[int, str | None, bool]] = []
    traced: list[Offset] = []

    def restart() -> Query:
        seen.append((engine._shrink, engine.failure, engine.running))
        if len(seen) == restarts:
            engine._stopping.set()
        return after(engine)

    def trace(start: Offset, stopping: threading.Event) -> bool:
        traced.append(start)
        assert not engine.running and engine.looking
        return found

    monkeypatch.setattr(engine_module, "_RETRY_SECONDS", (0.01,))
    engine.spark = FakeSpark(restart)  # type: ignore[assignment]
    engine.is_waiting, engine.trace = (lambda: True), trace
    engine.query = first  # type: ignore[assignment]
    engine._supervise()
    return engine, seen, traced


def test_a_cycle_that_hangs_is_stopped_looked_into_and_tried_with_fewer_rows(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = Query()
    _, seen, traced = supervised(folder, monkeypatch, hangs, lambda engine: Query(), 3)
    assert hangs.stopped == 1
    assert [shrink for shrink, _, _ in seen] == [2, 4, 8]
    assert all("while readings wait" in (failure or "") and not ready for _, failure, ready in seen)
    assert traced == [Offset(folder.read_id())] * 3


def test_where_the_culprit_was_found_the_next_cycle_has_all_rows(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, seen, traced = supervised(folder, monkeypatch, Query(), lambda engine: Query(), 2, found=True)
    assert [shrink for shrink, _, _ in seen] == [1, 1] and len(traced) == 2


def test_a_cycle_that_fails_is_looked_into_at_its_second_fourth_and_eighth_failure(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, seen, traced = supervised(folder, monkeypatch, Query(alive=False), lambda engine: Query(alive=False), 9)
    assert len(seen) == 9 and len(traced) == 3
    assert {failure for _, failure, _ in seen} == {"a worker crashed"}


def test_a_query_that_does_not_stop_is_ended_with_its_java_process(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck(Query):
        def stop(self) -> None:
            threading.Event().wait(5)

    class Process:
        killed = 0

        def kill(self) -> None:
            Process.killed += 1

        def wait(self, timeout: float) -> None:
            pass

    class Gateway:
        proc = Process()

    monkeypatch.setattr(engine_module, "STOP_QUERY_S", 0.05)
    monkeypatch.setattr(SparkContext, "_gateway", Gateway())
    supervised(folder, monkeypatch, Stuck(), lambda engine: Query(), 1)
    assert Process.killed == 1


def test_after_a_stall_cycles_grow_from_few_rows_to_all(folder: DataFolder) -> None:
    limits = Limits(800, 80)
    assert limits.shrunk(1) is limits
    assert limits.shrunk(1 << 20) == Limits(1, 1)
    clock = ManualClock()
    planner = Planner(folder, limits, clock, shrink=4)
    taken = []
    start = Offset(folder.read_id())
    for _ in range(4):
        taken.append(limits.shrunk(planner._shrink).cycle_max_rows)
        clock.advance(KEEP_WARM_US)  # each plans a cycle, though nothing waits
        start = planner.latest(start)
    assert taken == [200, 400, 800, 800]
