"""Joins that run as one answer what each would answer alone, whoever comes or goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.oracle.joins.groups import GroupStory

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
# Of the first twelve, these run every line of our code that any of them runs, but for two that other stories run.
SEEDS = range(2000, 2200) if SOAK else (2000, 2002, 2003, 2006, 2007, 2008, 2009, 2011)


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_that_differ_in_constants_equal_their_definition(
    seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    story = GroupStory(tmp_path / "data", seed)
    try:
        story.run(steps=60, most_streams=3)
        assert story.compared > 0
        assert not [r for r in caplog.records if r.name == "penstock.operators.join.steps.task"], "a shared step failed"
    finally:
        story.db.stop()
