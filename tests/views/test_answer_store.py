"""What goes wrong after a cycle is on disk must harm no answer and must not stop the next cycle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.views.answer_store import AnswerStore
from penstock.views.stream_clock_index import StreamClockIndex
from tests.sinks.world import eventually
from tests.support.pipe import Pipe

SEEN = "CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)"


@pytest.fixture
def pipe(pipes: Callable[..., Pipe]) -> Pipe:
    found = pipes()
    found.probes()
    found.db.execute(SEEN)
    found.push(1.0)
    found.engine.drain()
    return found


def fail(*_: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["_follow_definitions", "_take_results", "_take_newest", "at"])
def test_a_cycle_that_could_not_be_folded_is_folded_with_the_next(
    pipe: Pipe, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.push(2.0)
    waits, pipe.engine.lag = pipe.engine.lag, lambda: 0
    with monkeypatch.context() as broken:
        broken.setattr(StreamClockIndex if step == "at" else AnswerStore, step, fail)
        assert pipe.engine.cycle() is not None
        (follower,) = pipe.db.follower.services()
        eventually(lambda: follower.failure is not None)
        assert "No space" in str(follower.failure) and not pipe.db.health().ready
    pipe.engine.lag = waits
    pipe.push(3.0)
    pipe.engine.drain()
    assert pipe.answer("seen") == [1.0, 2.0, 3.0]
    cycle = pipe.db.standing.store.cycle
    assert pipe.db.standing.feed.mark(cycle).cycle == cycle == pipe.engine.commits.last.cycle  # type: ignore[union-attr]
    assert pipe.db.queries()[0]["matched"] == 3


def test_a_subscriber_whose_callback_fails_does_not_stop_the_pipeline(pipe: Pipe) -> None:
    told: list[int] = []

    def closed_loop() -> None:
        told.append(1)
        if len(told) > 1:
            raise RuntimeError("Event loop is closed")

    subscription = pipe.db.subscribe("seen")
    subscription.on_ready(closed_loop)
    pipe.push(2.0)
    pipe.engine.drain()
    assert pipe.answer("seen") == [1.0, 2.0]
    assert len(told) == 2  # it is not asked again


def test_a_snapshot_that_finds_no_room_is_left_for_later(pipe: Pipe) -> None:
    pipe.set_intervals(snapshot_cycles=1)
    pipe.engine.commits.crash_point = lambda step: fail() if step.startswith("snapshot") else None
    pipe.push(2.0)
    pipe.engine.drain()
    assert pipe.answer("seen") == [1.0, 2.0]
