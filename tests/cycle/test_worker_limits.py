"""A worker that takes more memory than it may raises an error instead of taking the machine's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
SCRIPT = """
import numpy as np, pyarrow as pa
from penstock.pipeline.tasks import WorkerLimits
from penstock.cycle.worker import limit_worker
limit_worker(WorkerLimits(memory_mb=100))
limit_worker(WorkerLimits(memory_mb=100))  # as at every task: it does not add up
small = np.ones(5_000_000)  # 40 MB
kept = []
for take in (lambda: np.ones(50_000_000), lambda: [kept.append(bytes(10**6) + b"x") for _ in range(500)]):
    try:
        take()
    except MemoryError:
        kept.clear()
        print("MemoryError")
"""


def test_too_much_memory_is_an_error_and_a_little_is_not() -> None:
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True, timeout=120
    )
    assert done.stdout.split() == ["MemoryError", "MemoryError"], done.stderr
