"""Whatever algorithm the planner chooses for a step, and however often it changes, the answers are the definition's."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.operators.join.algorithms import NAMES
from tests.oracle.joins.groups import GroupStory
from tests.oracle.joins.stories import Story
from tests.support.random_choices import RandomChoices

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
SEEDS = range(3000, 3200 if SOAK else 3008)


class ChosenStory(Story):
    choices = RandomChoices(1)


class ChosenGroupStory(GroupStory):
    choices = RandomChoices(2)


def test_joins_by_any_algorithm_equal_their_definition(tmp_path: Path) -> None:
    ran: set[str] = set()
    for seed in SEEDS:
        for kind in (ChosenStory, ChosenGroupStory):
            story = kind(tmp_path / f"{kind.__name__}-{seed}", seed)
            assert story.tell(steps=40, most_streams=3) > 0, f"seed {seed} compares nothing"
            ran |= story.algorithms
    assert ran == set(NAMES)
