"""Statistics over windows: memory and error of the synopses, and correlated aggregates in buckets."""

from __future__ import annotations

from pathlib import Path

from bench.report import Report
from bench.statistics_correlated import measure_correlated
from bench.statistics_synopses import measure_synopses

SERIES = Path(__file__).parent.parent / "tests" / "data" / "nab"


class Statistics:
    """All measures of statistics, in one run on one machine."""

    PARTS = ("synopses", "correlated")

    def __init__(self, seconds: float, memory_minutes: float, only: str, rates: str, series: Path = SERIES) -> None:
        """`seconds` below 60 is a rehearsal on less data; `series` has files of `timestamp,value`."""
        self.scale = min(1.0, seconds / 60)
        self.series = series
        self.only = set(filter(None, only.split(",")))
        self.report = Report("statistics", "windows of up to a million rows", keep=bool(self.only))

    def run(self) -> None:
        parts = {
            "synopses": lambda: measure_synopses(self.report, self.scale),
            "correlated": lambda: measure_correlated(self.report, self.scale, self.series),
        }
        for name, part in parts.items():
            if not self.only or name in self.only:
                part()
                self.report.save()
        self.report.show()
