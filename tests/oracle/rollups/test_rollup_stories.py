"""Random stories of rollups against brute force over all rows that ever were: late rows, tier edges, crashes, drops."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.oracle.rollups.rig import RollupRig

SEEDS = range(400) if os.environ.get("PENSTOCK_SOAK") else range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_log_and_rollup_together_say_what_all_rows_say(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = RollupRig(tmp_path, seed, monkeypatch)
    rig.roll_up()
    rig.create()
    for _ in range(110):
        rig.step()
    rig.finish()
    assert rig.compared
    rig.db.stop()
