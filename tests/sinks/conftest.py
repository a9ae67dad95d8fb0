"""Databases without Spark, with sinks that do not dawdle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.sinks import follower
from penstock.sinks.follower import Pace
from tests.pipeline_pure.world import Pipe
from tests.sinks.world import Receiver


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "PACE", Pace(turn_s=0.05, least_s=0.01, most_s=0.05, asked_s=0.05, position_s=0.0))


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[Callable[..., Pipe]]:
    made: list[Pipe] = []

    def make(**settings: Any) -> Pipe:
        made.append(Pipe(tmp_path / f"data{len(made)}", **settings))
        return made[-1]

    yield make
    for pipe in made:
        pipe.db.stop()


@pytest.fixture
def pipe(pipes: Callable[..., Pipe]) -> Pipe:
    return pipes()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()
