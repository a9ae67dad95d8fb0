"""Statistics over windows: a thousand aggregates, Spark's windows beside ours, synopses, and correlated aggregates in buckets."""

from __future__ import annotations

from pathlib import Path

from bench.report import Report
from bench.statistics_aggregates import COUNTS, RATE, measure_aggregates
from bench.statistics_correlated import measure_correlated
from bench.statistics_synopses import measure_synopses
from bench.statistics_windows import measure_windows

SERIES = Path(__file__).parent.parent / "tests" / "data" / "nab"


class Statistics:
    """All measures of statistics, in one run on one machine."""

    PARTS = ("aggregates", "windows", "synopses", "correlated")

    def __init__(
        self, seconds: float, memory_minutes: float, only: str, rates: str, counts: str = "", series: Path = SERIES
    ) -> None:
        """`seconds` below 60 is a rehearsal on less data; `series` has files of `timestamp,value`."""
        self.seconds = seconds
        self.scale = min(1.0, seconds / 60)
        self.series = series
        self.counts = [int(c) for c in counts.split(",")] if counts else list(COUNTS)
        self.rate = int(rates.split(",")[0]) if rates else RATE
        self.only = set(filter(None, only.split(",")))
        self.report = Report("statistics", f"each rate held for {seconds:.0f} s", keep=bool(self.only))

    def run(self) -> None:
        parts = {
            "aggregates": lambda: measure_aggregates(self.report, self.seconds, self.counts, self.rate),
            "windows": lambda: measure_windows(self.report, self.scale),
            "synopses": lambda: measure_synopses(self.report, self.scale),
            "correlated": lambda: measure_correlated(self.report, self.scale, self.series),
        }
        for name, part in parts.items():
            if not self.only or name in self.only:
                part()
                self.report.save()
        self.report.show()
