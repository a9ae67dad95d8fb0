"""The planner waits until something is due, and misses nothing meanwhile."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from penstock.cycle.cut import Limits
from penstock.cycle.offset import Offset
from penstock.cycle.planner import EDGE_INTERVAL_US, WAIT_MAX_S, Planner
from penstock.cycle.wakeup import POLL_S, Wakeup, signal
from tests.support.pipe import Pipe

LONG_S = 30.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "wakeup"


def test_a_signal_since_the_last_clear_ends_the_wait(path: Path) -> None:
    wakeup = Wakeup(path)
    signal(path)
    assert wakeup.wait(LONG_S)
    assert wakeup.wait(LONG_S), "until it is cleared"
    wakeup.clear()
    assert not wakeup.wait(0.001)


def test_a_signal_without_a_planner_is_nothing(path: Path) -> None:
    signal(path)
    assert not path.exists()
    wakeup = Wakeup(path)
    assert not wakeup.wait(0.001)


def test_signals_that_no_planner_reads_never_block(path: Path) -> None:
    wakeup = Wakeup(path)
    for _ in range(70_000):
        signal(path)
    assert wakeup.wait(LONG_S)
    wakeup.clear()
    wakeup.clear()
    assert not wakeup.wait(0.001)


def test_the_fifo_is_the_servers_own(path: Path) -> None:
    Wakeup(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_fifos_the_planner_looks_again_and_again(path: Path) -> None:
    wakeup = Wakeup(path / "no folder")
    signal(path / "no folder")
    wakeup.clear()
    began_s = time.monotonic()
    assert wakeup.wait(LONG_S)
    assert POLL_S <= time.monotonic() - began_s < LONG_S


def test_no_change_waits_for_the_end_of_a_wait(path: Path) -> None:
    """A writer changes a number and signals, at any moment of the reader's turn. One lost signal would take LONG_S."""
    wakeup, chance, last = Wakeup(path), random.Random(7), 3_000
    written = 0

    def write() -> None:
        nonlocal written
        for _ in range(last):
            written += 1
            signal(path)
            if chance.random() < 0.3:
                time.sleep(chance.random() / 2_000)

    writer = threading.Thread(target=write)
    began_s = time.monotonic()
    writer.start()
    seen = 0
    while seen < last:
        wakeup.clear()
        if written == seen:
            assert wakeup.wait(LONG_S)
        seen = written
    writer.join()
    assert time.monotonic() - began_s < LONG_S


class Waits(Wakeup):
    """Notes how long the planner would wait; `meanwhile` happens while it does."""

    def __init__(self, path: Path, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__(path)
        self.seconds: list[float] = []
        self._meanwhile = meanwhile

    def wait(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        self._meanwhile()
        return super().wait(0.0)


@pytest.fixture
def pipe(tmp_path: Path, path: Path) -> Iterator[Pipe]:
    """A database that signals its changes; no cycle of its own runs."""
    made = Pipe(tmp_path / "data")
    made.probes()
    made.db.log.on_change = partial(signal, path)
    yield made
    made.db.stop()


def quiet(pipe: Pipe, interval_s: float = 0.0) -> tuple[Planner, Offset]:
    """A planner whose first cycle is through, and where that ended."""
    planner = Planner(pipe.db.folder, Limits(1_000, 1_000, interval_s), pipe.clock)
    return planner, planner.latest(pipe.engine.position())


def test_rows_that_come_during_the_wait_are_planned_at_once(pipe: Pipe, path: Path) -> None:
    planner, start = quiet(pipe)
    wakeup = Waits(path, lambda: pipe.push(1.0, 2.0))
    planned = planner.await_latest(start, wakeup)
    assert sum(planned.data.values()) == sum(start.data.values()) + 2
    assert wakeup.seconds == [WAIT_MAX_S]


def test_definitions_that_come_during_the_wait_are_planned_at_once(pipe: Pipe, path: Path) -> None:
    planner, start = quiet(pipe)
    wakeup = Waits(path, lambda: pipe.db.execute("CREATE QUERY all_values AS SELECT value FROM probes"))
    assert planner.await_latest(start, wakeup).journal == start.journal + 1
    assert wakeup.seconds == [WAIT_MAX_S]


def test_rows_that_are_there_are_planned_without_a_wait(pipe: Pipe, path: Path) -> None:
    planner, start = quiet(pipe)
    pipe.push(1.0)
    wakeup = Waits(path)
    planned = planner.await_latest(start, wakeup)
    assert planned.data != start.data and wakeup.seconds == []


def test_a_wait_without_a_signal_ends_without_a_cycle(pipe: Pipe, path: Path) -> None:
    planner, start = quiet(pipe)
    wakeup = Waits(path)
    assert planner.await_latest(start, wakeup) == start
    assert wakeup.seconds == [WAIT_MAX_S]


def test_a_wait_ends_when_time_alone_makes_a_cycle_due(pipe: Pipe, path: Path) -> None:
    planner, start = quiet(pipe)
    (pipe.db.folder.tmp / "next_edge").write_text(str(start.now_us + EDGE_INTERVAL_US))
    pipe.clock.set(start.now_us + EDGE_INTERVAL_US - 30_000)
    wakeup = Waits(path)
    assert planner.await_latest(start, wakeup) == start
    assert wakeup.seconds == [pytest.approx(0.03, abs=1e-5)]
    pipe.clock.advance(30_000)
    assert planner.await_latest(start, wakeup).now_us > start.now_us
    assert len(wakeup.seconds) == 1


def test_a_signal_does_not_shorten_the_pause_between_two_cycles(pipe: Pipe, path: Path) -> None:
    began_s = time.monotonic()
    planner, start = quiet(pipe, interval_s=0.1)
    wakeup = Wakeup(path)
    pipe.push(1.0)
    assert planner.await_latest(start, wakeup).data != start.data
    assert time.monotonic() - began_s > 0.1


def test_a_long_pause_is_taken_in_parts(pipe: Pipe, path: Path) -> None:
    """Spark can stop the query in between, and rows that wait keep no processor busy."""
    began_s = time.monotonic()
    planner, start = quiet(pipe, interval_s=2.5 * WAIT_MAX_S)
    wakeup = Wakeup(path)
    pipe.push(1.0)
    calls = 1
    while planner.await_latest(start, wakeup) == start:
        calls += 1
    assert time.monotonic() - began_s > 2.5 * WAIT_MAX_S
    assert calls == 3
