"""What other benchmarks measure, in one file with the rest: each is run as its own command, and its figures are taken over."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from bench.comparison import Measure
from bench.pairs import forget
from bench.report import RESULTS
from bench.scale import Figures

PIPELINE = {
    "push_to_visible_p50_ms_60k": "push_to_visible_p50_ms_60k",
    "push_to_visible_p99_ms_60k": "push_to_visible_p99_ms_60k",
    "python_task_floor_ms": "python_task_floor_ms",
    "sustained_rows_per_s": "sustained_tuples_per_s_1_query",
}
"""Our name, and the one in the other benchmark's results."""
START = {name: name for name in ("start_s_empty", "console_open_s", "start_s_history", "start_first_answer_s_history")}
JOINS = {"ours_rows_per_s": "ours_rows_per_s"}
GROUPS = {
    "groups_1e6_fold_p50_ms": "groups_1e6_fold_p50_ms",
    "groups_1e6_fold_p99_ms": "groups_1e6_fold_p99_ms",
    "groups_1e6_answer_ms": "answer_ms",
    "groups_1e6_difference_ms": "difference_ms",
    "groups_1e6_page_ms": "page_ms",
    "groups_1e6_bytes_per_group": "bytes_per_group",
    "groups_1e6_cells_mb": "cells_mb",
}
MANY_GROUPS = "bench.many_groups"


def measure_pipeline(say: Callable[[str], None], seconds: float) -> Figures:
    """Push to visible and the sustained rate of the foundations, and the three-way join."""
    rates = ("--only", "latency,sustained", "--rates", "60000", "--seconds", f"{seconds:g}")
    found = taken_over(say, ("bench", "foundations", *rates), "foundations", PIPELINE)
    return found | taken_over(say, ("bench.joins_ours",), "joins_ours", JOINS)


def measure_start(say: Callable[[str], None]) -> Figures:
    """Starts on an empty folder and on one with history and queries, and the console in a browser that runs already."""
    return taken_over(say, ("bench.start",), "start", START)


def measure_groups(say: Callable[[str], None]) -> Figures:
    """A million groups, in one process."""
    if find_spec(MANY_GROUPS) is None:
        say(f"[bold red]GROUPS ARE LEFT OUT: there is no {MANY_GROUPS}")
        return {}
    return taken_over(say, (MANY_GROUPS,), "many_groups", GROUPS)


def taken_over(say: Callable[[str], None], command: tuple[str, ...], results: str, names: Mapping[str, str]) -> Figures:
    """What a command writes to its results."""
    path = RESULTS / f"{results}.json"
    forget(path, [Measure(theirs) for theirs in names.values()])
    run(say, command)
    return figures_of(json.loads(path.read_text()), names)


def figures_of(known: Mapping[str, Any], names: Mapping[str, str]) -> Figures:
    """Figures by our names: all runs of one that has several, None for one that is not there."""
    runs = {name: each["runs"] for name, each in known.get("runs", {}).items()}
    return {ours: runs.get(theirs, known.get(theirs)) for ours, theirs in names.items()}


def run(say: Callable[[str], None], command: tuple[str, ...]) -> None:
    say(f"python -m {' '.join(command)}")
    subprocess.run([sys.executable, "-m", *command], stdout=subprocess.DEVNULL, check=True)
