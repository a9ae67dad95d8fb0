"""Subscribers, older cycles, snapshots, restarts, pauses, retention and compaction: no answer ever differs.

As in test_cycles, with the engine that runs tasks in this process.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.oracle.watching import WatchingRig

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
# Seeds that failed once and were mended stay here.
KEPT: tuple[int, ...] = (1149,)


@pytest.mark.parametrize("seed", sorted({*KEPT, *range(1000, 1300 if SOAK else 1007)}))
def test_whoever_follows_a_query_sees_what_the_oracle_says(seed: int, tmp_path: Path) -> None:
    rig = WatchingRig(tmp_path / "data", seed)
    rig.tell(seed, steps=200 if SOAK else 60)
    assert rig.events
