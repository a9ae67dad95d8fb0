"""Cycles that ran and were never committed are planned anew, with another end: no answer shows it.

Spark's checkpoint once made a repeat end where the first try did. What tasks leave behind must not depend on that: runs of
joins, sheets, files of results, and what planner and workers remember.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from penstock.cycle.commits import CommitRecord
from penstock.cycle.cut import Limits
from penstock.cycle.planner import Planner
from penstock.cycle.worker import run_task
from penstock.operators.join.steps import results, units
from tests.oracle import rig
from tests.oracle.aggregates import rig as aggregates
from tests.oracle.joins import stories
from tests.oracle.losing import Losing
from tests.support.local_engine import LocalEngine

SEEDS = range(100) if os.environ.get("PENSTOCK_SOAK") else range(2)


class Repeating(LocalEngine):
    """Runs some cycles more than once; only the last try is committed, and no two tries have the same limits."""

    lost = 0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._random = random.Random(repr(self.position()))

    def cycle(self, limits: Limits | None = None) -> CommitRecord | None:
        while self._random.random() < 0.4:
            self._lose_cycle()
        return super().cycle(limits)

    def _lose_cycle(self) -> None:
        start = self.commits.last.end if self.commits.last else self.position()
        usual, self._planner.limits = self._planner.limits, Limits(*self._random.choices([1, 2, 5, 1000], k=2))
        end = self._planner.latest(start)
        self._planner.limits = usual
        if end == start:
            return
        tasks = self.tasks(start, end)
        # A task may have ended, or not even begun, when the others were given up.
        for task in self._random.sample(tasks, self._random.randint(1, len(tasks))):
            list(run_task(task))
        Repeating.lost += 1
        # The planner's process ends with its streaming query; workers stay, with all that they remember.
        self._planner = Planner(self.folder, usual, self._planner._clock)


@pytest.fixture(autouse=True)
def repeating(monkeypatch: pytest.MonkeyPatch) -> type[Repeating]:
    monkeypatch.setattr(rig, "LocalEngine", Repeating)
    monkeypatch.setattr(aggregates, "LocalEngine", Repeating)
    monkeypatch.setattr(stories, "LocalEngine", Repeating)
    monkeypatch.setattr(Repeating, "lost", 0)
    return Repeating


@pytest.mark.parametrize("seed", SEEDS)
def test_selections(seed: int, tmp_path: Path, repeating: type[Repeating]) -> None:
    rig.Rig(tmp_path / "data", seed).tell(seed, steps=60)
    assert repeating.lost


@pytest.mark.parametrize("seed", SEEDS)
def test_sheets(seed: int, tmp_path: Path, repeating: type[Repeating], monkeypatch: pytest.MonkeyPatch) -> None:
    losing = Losing(seed, monkeypatch)
    story = rig.Rig(tmp_path / "data", seed)
    story.after_cycle = losing.after_cycle
    story.tell(seed, steps=60)
    assert repeating.lost


@pytest.mark.parametrize("seed", SEEDS)
def test_joins(seed: int, tmp_path: Path, repeating: type[Repeating], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "SPREAD_ROWS", 4)
    monkeypatch.setattr(results, "INLINE_ROWS", 3)  # so that there are files of results
    assert stories.Story(tmp_path / "data", seed).tell(steps=45, most_streams=3) > 0
    assert repeating.lost


@pytest.mark.parametrize("seed", SEEDS)
def test_aggregates(seed: int, tmp_path: Path, repeating: type[Repeating], monkeypatch: pytest.MonkeyPatch) -> None:
    story = aggregates.Rig(tmp_path, seed, monkeypatch)
    story.create()
    for _ in range(80):
        story.step()
    story.finish()
    story.db.stop()
    assert story.compared
    assert repeating.lost
