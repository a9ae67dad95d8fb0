"""Random stories of aggregations against brute force: late rows, ties, silence, restarts, changed windows, drops."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.oracle.aggregates.rig import Rig

# Of the first ten, these run every line of our code that any of them runs.
# In 195 retention passes over history that a query with LATCH has still to read.
SEEDS = range(400) if os.environ.get("PENSTOCK_SOAK") else (0, 2, 3, 4, 5, 8, 195)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_is_what_all_rows_say(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path, seed, monkeypatch)
    rig.create()
    for _ in range(120):
        rig.step()
    rig.finish()
    assert rig.compared > 20
    rig.db.stop()
