"""Aggregates over random window joins equal their definition: with lag, ties, silence, restarts, retention and ALTER."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.oracle.joins.aggregated import AggregatedStory
from tests.oracle.joins.read import ReaderStory

SEEDS = range(400) if os.environ.get("PENSTOCK_SOAK") else range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_aggregates_over_joins_equal_their_definition(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        AggregatedStory(tmp_path / "data", seed, monkeypatch).tell(steps=70, most_streams=3 if seed % 6 == 5 else 2) > 0
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_readers_of_joins_equal_their_definition(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ReaderStory(tmp_path / "data", seed, monkeypatch).tell(steps=70, most_streams=2)
