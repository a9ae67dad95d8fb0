"""`python -m bench [NAME ...] [--seconds N]`: run benchmarks and say where their results are."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.console import Console
from bench.foundations import Foundations
from bench.joins import Joins
from bench.queries import Queries
from bench.statistics import SERIES, Statistics

BENCHES = {
    "foundations": Foundations,
    "joins": Joins,
    "queries": Queries,
    "statistics": Statistics,
    "console": Console,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], help="which ones; all by default")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long each rate is held (60; less is a rehearsal)"
    )
    parser.add_argument("--memory-minutes", type=float, default=10.0, help="length of the memory run; 0 leaves it out")
    parser.add_argument("--only", default="", help="parts of a benchmark, separated by commas")
    parser.add_argument("--rates", default="", help="rates that are held, in rows/s, where not the usual ones")
    parser.add_argument(
        "--counts", default="", help="numbers of standing queries or aggregates, where not the usual ones"
    )
    parser.add_argument("--series", type=Path, default=SERIES, help="folder with files of timestamp,value (statistics)")
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    # A part's name chooses its benchmark, so that the figures of another one stay as they are.
    named = [name for name, bench in BENCHES.items() if not wanted or wanted & set(bench.PARTS)]
    for name in options.names or named:
        more = {
            "queries": {"counts": options.counts},
            "statistics": {"counts": options.counts, "series": options.series},
        }.get(name, {})
        BENCHES[name](options.seconds, options.memory_minutes, options.only, options.rates, **more).run()


if __name__ == "__main__":
    main()
