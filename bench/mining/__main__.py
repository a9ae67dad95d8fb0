"""Accuracy and speed of mining functions: `python -m bench.mining [--only PART,..]`.

Each part has data from seeds or real series, and asks libraries in environments of their own. bench/results/mining.json has all runs of
each figure under `runs`, with the commit, the command and the load of the machine before each run; figures of parts that were left
out stay as they were.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

from bench.mining import Figures
from bench.mining.anomalies_nab import measure_anomalies
from bench.mining.change_points import measure_change_points
from bench.mining.clusters import measure_clusters
from bench.mining.forecasts import measure_forecasts
from bench.mining.matches import measure_matches
from bench.mining.patterns import measure_patterns
from bench.mining.periods import measure_periods
from bench.mining.sequences import measure_sequences
from bench.report import Report

PARTS: dict[str, Callable[[Report], Figures]] = {
    "anomalies": measure_anomalies,
    "periods": measure_periods,
    "change_points": measure_change_points,
    "forecasts": measure_forecasts,
    "patterns": measure_patterns,
    "clusters": measure_clusters,
    "sequences": measure_sequences,
    "matches": measure_matches,
}


def measure(report: Report, names: list[str], runs: int) -> list[str]:
    """The parts of which a run failed."""
    return report.measure_parts({name: partial(PARTS[name], report) for name in names}, runs, "bench.mining")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.mining", description=__doc__)
    parser.add_argument("--only", default="", help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--runs", type=int, default=1, help="how often each part runs")
    options = parser.parse_args(arguments)
    options.names = list(filter(None, options.only.split(","))) or list(PARTS)
    if unknown := [name for name in options.names if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}")
    return options


def main() -> None:
    options = parsed()
    report = Report("mining", "against what was planted, and against libraries", keep=True)
    failed = measure(report, options.names, options.runs)
    report.show()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
