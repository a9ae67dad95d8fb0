"""Fixtures `pipe` and `pipes`: databases without Spark, for tests of every folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.pipe import Pipe


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[Callable[..., Pipe]]:
    from tests.support.pipe import Pipe  # a whole database: many tests need none

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
