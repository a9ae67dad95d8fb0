"""This commit against another one, in interleaved pairs: `python -m bench.pairs --before COMMIT`.

Each side is measured by the benchmarks of its own checkout, one after the other, and the side that goes first alternates,
so that a machine that slows down during the run is not taken for a difference. The ratio of each measure is the median
over the pairs. Results: bench/results/pairs.{json,md,png}.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import RESULTS, Report

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Part:
    """Arguments of `python -m bench` and the measures that are compared."""

    bench: str
    arguments: tuple[str, ...]
    measures: tuple[str, ...]


PARTS = {
    "latency": Part(
        "foundations",
        ("--only", "latency", "--rates", "60000"),
        tuple(f"push_to_visible_{q}_ms_60k{s}" for s in ("", "_100_queries") for q in ("p50", "p99")),
    ),
    "sustained": Part("foundations", ("--only", "sustained"), ("sustained_tuples_per_s_1_query",)),
    "queries": Part(
        "queries",
        ("--only", "selections", "--counts", "10000", "--rates", "100000"),
        ("cycle_p50_ms_10000_queries_100k", "cycle_p99_ms_10000_queries_100k", "push_to_visible_p99_ms_10000_queries_100k"),
    ),
}  # fmt: skip


def run_side(source: Path, part: Part, seconds: float) -> dict[str, float]:
    """One run of a benchmark in a checkout."""
    command = [sys.executable, "-m", "bench", part.bench, *part.arguments, "--seconds", str(seconds)]
    environment = {**os.environ, "PYTHONPATH": f"{source / 'src'}{os.pathsep}{source}"}
    subprocess.run(command, cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads((source / "bench" / "results" / f"{part.bench}.json").read_text())
    return {name: float(found[name]) for name in part.measures}


def compare(report: Report, before: Path, names: Sequence[str], pairs: int, seconds: float) -> None:
    sides = {"before": before, "after": ROOT}
    for name in names:
        part = PARTS[name]
        runs: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
        for pair in range(pairs):
            for side in ("before", "after") if pair % 2 == 0 else ("after", "before"):
                report.say(f"{name}: pair {pair + 1} of {pairs}, {side}")
                runs[side].append(run_side(sides[side], part, seconds))
                report.say(f"  {runs[side][-1]}")
        for measure in part.measures:
            ratios = [a[measure] / b[measure] for a, b in zip(runs["after"], runs["before"], strict=True)]
            for side, found in runs.items():
                report.values[f"{side} {measure}"] = [one[measure] for one in found]
            report.put(f"ratio {measure}", statistics.median(ratios))
        save(report)


def save(report: Report) -> None:
    report.save()
    ratios = {name.removeprefix("ratio "): v for name, v in report.values.items() if name.startswith("ratio ")}
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.5 * len(ratios) + 1))
    axes.barh(list(ratios), list(ratios.values()))
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xlabel("after / before, median of pairs")
    figure.tight_layout()
    figure.savefig(RESULTS / "pairs.png", dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pairs", description=__doc__)
    parser.add_argument("--before", required=True, help="the commit to compare with")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each rate is held")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "before"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", str(folder), options.before], cwd=ROOT, check=True)
        stack.callback(subprocess.run, ["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, check=True)
        report = Report(
            "pairs", f"{options.pairs} pairs against {options.before}, rates held for {options.seconds:.0f} s"
        )
        compare(report, folder, options.only.split(","), options.pairs, options.seconds)
    for name, value in report.values.items():
        print(f"{name:60} {value}")


if __name__ == "__main__":
    main()
