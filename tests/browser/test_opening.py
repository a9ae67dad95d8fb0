"""The console is opened while others work: that must not break what they are at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_tuple_that_another_thread_makes_meanwhile_is_finished(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.browser.open_beside", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["200", "(1, 2)"]), done.stderr
