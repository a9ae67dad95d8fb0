"""This commit against another one, in interleaved pairs: `python -m bench.pairs --before COMMIT`.

Both sides run one after the other, and the side that goes first alternates, so that a machine that slows down during the run
is not taken for a difference. A measure is worse where the median of this commit's runs is more than 5 % worse than the
median of the other's. The command ends with 1 where one is, or where a measure is missing. Results: bench/results/pairs.{json,md,png}.

The other commit is checked out under bench/.peers with an environment of its own, because it may need other packages. That
takes some minutes the first time. Both environments are warm before anything is measured, so that no run compiles.

Most parts are measured by the benchmarks of each side's own checkout. `joins` and `start` need only a server: this checkout's
benchmark starts the server of each side. With `--only`, other parts stay in the results that were measured before for the same
two commits, with as many pairs of the same length.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.comparison import Comparison, Measure, turns, write_lines
from bench.peer_environments import PEERS
from bench.report import RESULTS, Report

ROOT = Path(__file__).parents[1]
SIDES = ("before", "after")
TOLERANCE = 0.05


@dataclass(frozen=True)
class Part:
    """One run of a benchmark as `python -m`, and which of its figures are compared."""

    command: tuple[str, ...]
    results: str
    """The name of its file in bench/results."""
    measures: tuple[Measure, ...]
    fixed_s: float
    """About how long a run takes on two quiet cores, without the rates that it holds."""
    holds: int = 0
    """How many rates it holds, each for `--seconds`; 0 is a benchmark that has a length of its own."""
    own: bool = True
    """Each side has the benchmark of its own checkout; otherwise this checkout's starts the server of each side."""

    def run_s(self, seconds: float) -> float:
        return self.fixed_s + self.holds * seconds


def lower(*names: str) -> tuple[Measure, ...]:
    return tuple(map(Measure, names))


def p50_p99(name: str) -> tuple[Measure, ...]:
    """`name` has a place for the percentile."""
    return lower(*(name.format(share) for share in ("p50", "p99")))


PARTS = {
    "latency": Part(
        ("bench", "foundations", "--only", "latency", "--rates", "60000"),
        "foundations",
        (*p50_p99("push_to_visible_{}_ms_60k"), *p50_p99("push_to_visible_{}_ms_60k_100_queries")),
        fixed_s=50,
        holds=2,
    ),
    "sustained": Part(
        ("bench", "foundations", "--only", "sustained"),
        "foundations",
        (Measure("sustained_tuples_per_s_1_query", higher_is_better=True),),
        fixed_s=30,
        holds=4,
    ),
    "queries": Part(
        ("bench", "queries", "--only", "selections", "--counts", "10000", "--rates", "100000"),
        "queries",
        (*p50_p99("cycle_{}_ms_10000_queries_100k"), *lower("push_to_visible_p99_ms_10000_queries_100k")),
        fixed_s=50,
        holds=1,
    ),
    "aggregates": Part(
        ("bench", "statistics", "--only", "aggregates", "--counts", "1000", "--rates", "60000"),
        "statistics",
        (*p50_p99("cycle_{}_ms_1000_aggregates_60k"), *p50_p99("invoke_{}_ms_1000_aggregates_60k")),
        fixed_s=50,
        holds=1,
    ),
    "joins": Part(
        ("bench.joins_ours",),
        "joins_ours",
        (Measure("ours_rows_per_s", higher_is_better=True),),
        fixed_s=40,
        own=False,
    ),
    "memory": Part(
        ("bench", "queries", "--only", "memory", "--counts", "10000", "--rates", "100000"),
        "queries",
        lower("kb_per_query"),
        fixed_s=75,
        holds=2,
    ),
    "invoke": Part(
        ("bench", "queries", "--only", "invoke"),
        "queries",
        (*p50_p99("invoke_http_{}_ms"), *p50_p99("invoke_process_{}_ms")),
        fixed_s=65,
    ),
    "start": Part(
        ("bench.start",),
        "start",
        lower("start_s_empty", "start_s_history", "start_first_answer_s_history"),
        fixed_s=90,
        own=False,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Side:
    """A checkout and the Python of its environment."""

    source: Path
    python: Path

    def run(self, *command: str, bench: Path | None = None) -> bool:
        """Run `python -m` with the checkout's server and benchmarks, or with the benchmarks of another; whether it went well.

        Bytecode is kept, as it is on a machine that serves.
        """
        bench = bench or self.source
        paths = f"{self.source / 'src'}{os.pathsep}{bench}"
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": ""}
        whole = [str(self.python), "-m", *command]
        return not subprocess.run(whole, cwd=bench, env=environment, check=False, stdout=subprocess.DEVNULL).returncode


def check_out(commit: str) -> Side:
    """The other side, made where it is missing: a clone with an environment of its own, by the same Python."""
    folder = PEERS / f"penstock-{commit[:12]}"
    if not folder.exists():
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", str(ROOT), str(folder)], check=True)
        subprocess.run(["git", "checkout", "-q", "--detach", commit], cwd=folder, check=True)
    if not (folder / ".venv" / ".ready").exists():
        environment = {
            **os.environ,
            "PYTHON": getattr(sys, "_base_executable", sys.executable),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        subprocess.run(["sh", "scripts/setup_venv.sh", ".venv"], cwd=folder, env=environment, check=True)
    return Side(folder, folder / ".venv" / "bin" / "python")


def run_side(side: Side, part: Part, seconds: float) -> dict[str, float]:
    """One run: its figures, NaN where it did not give one."""
    bench = side.source if part.own else ROOT
    results = bench / "bench" / "results" / f"{part.results}.json"
    forget(results, part.measures)
    held = ("--seconds", str(seconds)) if part.holds else ()
    found = read_json(results) if side.run(*part.command, *held, bench=bench) else {}
    return {m.name: math.nan if (f := found.get(m.name)) is None else float(f) for m in part.measures}


def forget(results: Path, measures: Sequence[Measure]) -> None:
    """Take figures of earlier runs away: a run that gives none would leave them, and they would count as its own."""
    if results.exists():
        names = {measure.name for measure in measures}
        kept = {name: figure for name, figure in read_json(results).items() if name not in names}
        if "runs" in kept:
            kept["runs"] = {name: runs for name, runs in kept["runs"].items() if name not in names}
        results.write_text(json.dumps(kept, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def remaining_s(names: Sequence[str], done: int, pairs: int, seconds: float) -> float:
    """About how long the runs take that are not done yet, in the order in which `compare` does them."""
    runs = [PARTS[name].run_s(seconds) for name in names for _ in range(2 * pairs)]
    return sum(runs[done:])


def compare(report: Report, before: Side, names: Sequence[str], pairs: int, seconds: float) -> None:
    sides = dict(zip(SIDES, (before, Side(ROOT, Path(sys.executable))), strict=True))
    report.say("both sides: warming up")
    for one in sides.values():
        one.run("penstock", "warm-up")
    done = 0
    for name in names:
        part = PARTS[name]
        runs: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
        for pair, side in turns(SIDES, pairs):
            left = remaining_s(names, done, pairs, seconds) / 60
            report.say(f"{name}: pair {pair + 1} of {pairs}, {side}; about {left:.0f} min left")
            runs[side].append(run_side(sides[side], part, seconds))
            report.say(f"  {runs[side][-1]}")
            done += 1
        for measure in part.measures:
            for side, found in runs.items():
                report.values[f"{side} {measure.name}"] = [one[measure.name] for one in found]
            report.put(f"ratio {measure.name}", comparison(report.values, measure).ratio)
        report.save()


def comparison(values: Mapping[str, Any], measure: Measure) -> Comparison:
    first, second = (values[f"{side} {measure.name}"] for side in SIDES)
    return Comparison(measure, first, second)


def comparisons(values: Mapping[str, Any]) -> list[Comparison]:
    """Of all parts that have been measured, now or before."""
    measures = [measure for part in PARTS.values() for measure in part.measures]
    return [comparison(values, measure) for measure in measures if f"ratio {measure.name}" in values]


def plot_ratios(found: Sequence[Comparison]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.5 * len(found) + 1))
    names = [f"{c.measure.name}{' (higher is better)' if c.measure.higher_is_better else ''}" for c in found]
    axes.barh(names, [c.ratio for c in found])
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xlabel("after / before, medians")
    figure.tight_layout()
    figure.savefig(RESULTS / "pairs.png", dpi=110)
    pyplot.close(figure)


def commit_of(name: str) -> str:
    command = ["git", "rev-parse", f"{name}^{{commit}}"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def earlier(results: Mapping[str, Any], title: str, commit: str) -> dict[str, Any]:
    """Figures of a file of results, if they are of the same two commits, with as many pairs of the same length."""
    if (results.get("title"), results.get("commit")) != (title, commit):
        return {}
    return {name: value for name, value in results.items() if name.startswith((*SIDES, "ratio "))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pairs", description=__doc__)
    parser.add_argument("--before", required=True, help="the commit to compare with")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each rate is held")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}")
    before = commit_of(options.before)
    title = f"{options.pairs} pairs against {before[:8]}, rates held for {options.seconds:g} s"
    report = Report("pairs", title)
    report.values = {"title": title, **earlier(read_json(RESULTS / "pairs.json"), title, commit_of("HEAD"))}
    report.say(f"about {remaining_s(names, 0, options.pairs, options.seconds) / 60:.0f} minutes on two quiet cores")
    compare(report, check_out(before), names, options.pairs, options.seconds)
    found = comparisons(report.values)
    write_lines("pairs", title, [c.line(SIDES, TOLERANCE) for c in found])
    plot_ratios(found)
    if any(not c.measured or c.is_worse(TOLERANCE) for c in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
