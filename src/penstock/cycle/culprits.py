"""Find the queries that stop a cycle, in a separate process (`cycle.trial`, which the server need not load)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import orjson

import penstock
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import Offset
from penstock.errors import error
from penstock.settings import Settings

TRY_S = 8.0
BUDGET_S = 120.0
# What it may take to load all definitions and to end.
_BESIDE_S = 120.0


def cycle_limits(settings: Settings) -> dict[str, int]:
    """The limits of a cycle and of its workers, by the names of their settings."""
    names = "cycle_max_rows fill_max_rows answer_read_max_rows join_memory_mb worker_memory_mb function_timeout_ms"
    return {name: getattr(settings, name) for name in names.split()}


def late_cycles(settings: Settings) -> int:
    """How far behind queries may stand: their answers are those of cycles that are kept."""
    return min(500, max(2, settings.cycles_keep) // 2)


def find_poison(folder: DataFolder, settings: Settings, start: Offset, stopping: threading.Event) -> dict[str, Any]:
    """A `trial.Finding` about the cycle from an offset on, as decoded JSON."""
    job = {
        "folder": str(folder.root),
        "start": start.to_json(),
        **cycle_limits(settings),
        "try_s": min(TRY_S, settings.cycle_stall_s),
        "alone_s": settings.cycle_stall_s,
        "budget_s": BUDGET_S,
    }
    packages = str(Path(penstock.__file__).parents[1])
    known = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": f"{packages}{os.pathsep}{known}" if known else packages}
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cycle.trial"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    said = _ask(process, orjson.dumps(job), stopping)
    if process.returncode != 0:
        raise error("engine_failed", detail=f"the cycle could not be looked into (code {process.returncode})")
    found: dict[str, Any] = orjson.loads(said)
    return {**found, "queries": {int(q): why for q, why in found["queries"].items()}}


def _ask(process: subprocess.Popen[bytes], job: bytes, stopping: threading.Event) -> bytes:
    """The answer of a separate process to a job. A process that takes too long, or outlives the server, is ended."""
    until = time.monotonic() + BUDGET_S + _BESIDE_S
    given: bytes | None = job
    while True:
        try:
            return process.communicate(given, timeout=0.2)[0]
        except subprocess.TimeoutExpired:
            given = None  # it has been handed over
            if stopping.is_set() or time.monotonic() > until:
                process.kill()
