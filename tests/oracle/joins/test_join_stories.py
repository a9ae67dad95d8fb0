"""Every split of a story into cycles gives the answers that the definition of a window join gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.oracle.joins.stories import Story

SEEDS = range(300) if os.environ.get("PENSTOCK_SOAK") else range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_equal_their_definition(seed: int, tmp_path: Path) -> None:
    assert Story(tmp_path / "data", seed).tell(steps=45, most_streams=4 if seed % 4 else 3) > 0


@pytest.mark.parametrize("seed", [1000 + seed for seed in SEEDS[: len(SEEDS) // 3]])
def test_joins_with_ordinary_tables_equal_their_definition(seed: int, tmp_path: Path) -> None:
    assert Story(tmp_path / "data", seed, with_tables=1.0).tell(steps=45, most_streams=3) > 0
