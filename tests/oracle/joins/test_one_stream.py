"""One stream beside ordinary tables equals its definition: tables that change between cycles, late readings, restarts, ALTER."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.oracle.joins.aggregated import AggregatedStory
from tests.oracle.joins.read import ReaderStory
from tests.oracle.joins.stories import Story

SEEDS = range(400) if os.environ.get("PENSTOCK_SOAK") else range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_stream_with_tables_equals_its_definition(seed: int, tmp_path: Path) -> None:
    assert Story(tmp_path / "data", seed).tell(steps=60, most_streams=1) > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_aggregates_over_one_stream_with_tables_equal_their_definition(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert AggregatedStory(tmp_path / "data", seed, monkeypatch).tell(steps=70, most_streams=1) > 0


@pytest.mark.parametrize("seed", SEEDS[: len(SEEDS) // 2])
def test_readers_of_one_stream_with_tables_equal_their_definition(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ReaderStory(tmp_path / "data", seed, monkeypatch).tell(steps=70, most_streams=1)
