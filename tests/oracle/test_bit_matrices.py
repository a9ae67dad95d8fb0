"""With sheets for everything, lost at random, and histories that nobody fills, every answer is still the oracle's."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.oracle.losing import ChangingRig, Losing
from tests.oracle.rig import Rig
from tests.oracle.watching import WatchingRig

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
# Seeds that failed once and were mended stay here. 3001 failed too, but only as a long story.
KEPT: tuple[int, ...] = ()
told: Counter[str] = Counter()


@pytest.mark.parametrize("seed", [*KEPT, *range(2000, 2400 if SOAK else 2006)])
def test_a_story_told_through_sheets_gives_the_oracles_answers(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing = Losing(seed, monkeypatch)
    rig = ChangingRig(tmp_path / "data", seed)
    _run(rig, seed, losing)


@pytest.mark.parametrize("seed", [*KEPT, *range(3000, 3300 if SOAK else 3004)])
def test_whoever_follows_a_query_through_sheets_sees_what_the_oracle_says(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing = Losing(seed, monkeypatch)
    rig = WatchingRig(tmp_path / "data", seed)
    _run(rig, seed, losing)


def _run(rig: Rig, seed: int, losing: Losing) -> None:
    rig.after_cycle = losing.after_cycle
    rig.tell(seed, steps=200 if SOAK else 60)
    told["stories"] += 1
    told["written"] += losing.written
    told["lost"] += losing.lost


def test_those_stories_wrote_sheets_and_lost_some() -> None:
    assert told["stories"] < 40 or (told["written"] > 100 and told["lost"] > 10), told
