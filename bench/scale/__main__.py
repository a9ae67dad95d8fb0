"""Long windows, many sensors, many groups, many queries: `python -m bench.scale [--only PART,..]`.

Each part runs servers of its own. A figure is the median of its runs. bench/results/scale.json has all runs of each figure under `runs`,
with the commit, the command and the load of the machine before each run; figures of parts that were left out stay as they were. A run that
ends with an error is under `failures`, and the others go on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

from bench.report import Report
from bench.scale import Figures
from bench.scale.followed import measure_followed
from bench.scale.month import DAYS as MONTH_DAYS
from bench.scale.month import measure_month
from bench.scale.others import measure_groups, measure_pipeline, measure_start
from bench.scale.selections import COUNT as SELECTIONS
from bench.scale.selections import measure_selections
from bench.scale.sensors import DAYS, SENSORS, measure_sensors
from bench.scale.sparse import measure_sparse

PARTS: dict[str, Callable[[Callable[[str], None], argparse.Namespace], Figures]] = {
    "month": lambda say, options: measure_month(say, options.month_days),
    "sparse": lambda say, options: measure_sparse(say),
    "sensors10k": lambda say, options: measure_sensors(say, options.days, options.seconds, options.sensors),
    "groups": lambda say, options: measure_groups(say),
    "followed": lambda say, options: measure_followed(say, options.seconds),
    "selections100k": lambda say, options: measure_selections(say, options.seconds, options.count),
    "start": lambda say, options: measure_start(say),
    "pipeline": lambda say, options: measure_pipeline(say, options.seconds),
}


def measure(report: Report, names: list[str], options: argparse.Namespace) -> list[str]:
    """The parts of which a run failed."""
    chosen = {name: partial(PARTS[name], report.say, options) for name in names}
    return report.measure_parts(chosen, options.runs, "bench.scale")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--only", default="", help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--runs", type=int, default=1, help="how often each part runs")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each rate is held (60)")
    parser.add_argument("--month-days", type=int, default=MONTH_DAYS, help="days of 200 sensors (month)")
    parser.add_argument("--days", type=int, default=DAYS, help="days of readings (sensors10k)")
    parser.add_argument("--sensors", type=int, default=SENSORS, help="so many sensors (sensors10k)")
    parser.add_argument("--count", type=int, default=SELECTIONS, help="standing selections (selections100k)")
    options = parser.parse_args(arguments)
    options.names = list(filter(None, options.only.split(","))) or list(PARTS)
    if unknown := [name for name in options.names if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}")
    return options


def main() -> None:
    options = parsed()
    report = Report("scale", f"each rate held for {options.seconds:g} s, {options.runs} runs", keep=True)
    failed = measure(report, options.names, options)
    report.show()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
