"""A database whose readings are kept for ten minutes, and rollups of small blocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.operators.aggregate.rollups import keeper
from tests.support.pipe import Pipe


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a tier gives up a quarter of an hour at a time, and not four hours."""
    monkeypatch.setattr(keeper, "CELLS_PER_BLOCK", 15)


@pytest.fixture
def pipe(pipes: Callable[..., Pipe]) -> Pipe:
    made = pipes()
    made.probes("WITH (retention = '10 MINUTES')")
    return made
