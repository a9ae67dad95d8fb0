"""Operators, order of conditions, load and priorities: `python -m bench.quality [--only PART,..]`.

A figure is the median of its runs. bench/results/quality.json has all runs of each figure under `runs`, with the commit, the command and
the load of the machine before each run; figures of parts that were left out stay as they were.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from bench.quality import parts
from bench.report import Report


def measure(report: Report, options: argparse.Namespace) -> list[str]:
    """The parts of which a run failed."""
    options.say = report.say
    chosen = {name: partial(parts()[name], options) for name in options.names}
    return report.measure_parts(chosen, options.runs, "bench.quality")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    known = list(parts())
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("--only", default="", help=f"parts, separated by commas: {', '.join(known)}")
    parser.add_argument("--runs", type=int, default=1, help="how often each part runs")
    parser.add_argument(
        "--seconds", type=float, default=None, help="how long each rate is held; a part has its own time"
    )
    options = parser.parse_args(arguments)
    options.names = list(filter(None, options.only.split(","))) or known
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no such part: {', '.join(unknown)}")
    return options


def main() -> None:
    options = parsed()
    report = Report("quality", f"{', '.join(options.names)}, {options.runs} runs", keep=True)
    failed = measure(report, options)
    report.show()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
