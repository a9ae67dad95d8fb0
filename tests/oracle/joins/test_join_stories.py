"""Every split of a story into cycles gives the answers that the definition of a window join gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.oracle.joins.branched import BranchedStory
from tests.oracle.joins.stories import Story

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
# Those of `make test` run every line of operators, views and cycles that the first twenty run, with the other files of this folder.
SEEDS = range(300) if SOAK else (0, 10, 11, 14, 15, 16)
BRANCHED = range(2001, 2200) if SOAK else (2001, 2004, 2005, 2007)
WITH_TABLES = range(1000, 1100) if SOAK else (1001, 1002)


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_equal_their_definition(seed: int, tmp_path: Path) -> None:
    assert Story(tmp_path / "data", seed).tell(steps=45, most_streams=4 if seed % 4 else 3) > 0


@pytest.mark.parametrize("seed", WITH_TABLES)
def test_joins_with_ordinary_tables_equal_their_definition(seed: int, tmp_path: Path) -> None:
    assert Story(tmp_path / "data", seed, with_tables=1.0).tell(steps=45, most_streams=3) > 0


@pytest.mark.parametrize("seed", BRANCHED)
def test_paths_both_ways_and_full_joins_equal_their_definition(seed: int, tmp_path: Path) -> None:
    assert BranchedStory(tmp_path / "data", seed).tell(steps=45, most_streams=3 if seed % 4 else 4) > 0
