"""A process that ends at any step of a commit or a merge loses nothing acknowledged and doubles nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices

ROOT = Path(__file__).parents[3]
COMMIT = ["log:begin", "log:written", "log:synced", "log:renamed", "log:folder_synced", "log:answered"]
MERGE = [
    "compact:written",
    "compact:synced",
    "compact:renamed",
    "compact:keys_carried",
    "compact:removed_one",
]


def run(folder: Path, steps: list[str]) -> list[str]:
    """Exit codes of one process per step, each on the folder that the one before left behind."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.streams.log.crash_child", str(folder), *steps]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("steps", [COMMIT, MERGE], ids=["commit", "merge"])
def test_every_acknowledged_reading_is_there_exactly_once_after_any_crash(tmp_path: Path, steps: list[str]) -> None:
    """The sender repeats its last push under the same key; crash after crash on one folder, then a clean run."""
    codes = run(tmp_path, [*(f"{step}:{count}" for count, step in enumerate(steps, 2)), "none:1"])
    assert codes == ["7"] * len(steps) + ["0"]
    acknowledged = int((tmp_path / "acknowledged").read_text())
    segments = list_segments(tmp_path / "log", 3)
    assert segments[0].first == 0
    stored = [s for piece in slices(segments, 0, 2**60) for s in read_slice(piece, ["seq"]).column("seq").to_pylist()]
    assert stored == [number for number in range(acknowledged) for _ in range(2)]
    assert list((tmp_path / "tmp").iterdir()) == []
