"""Databases without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline_pure.world import Pipe


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
