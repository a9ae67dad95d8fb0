"""Window joins: ours against Spark's and Flink's, without equality, with a silent stream, and how cost grows."""

from __future__ import annotations

from bench.joins_growth import measure_growth
from bench.joins_ours import WARM_SECONDS, measure_latency, measure_ours
from bench.joins_papers import measure_papers
from bench.joins_peers import measure_peers
from bench.joins_silent import measure_silent
from bench.joins_theta import measure_theta
from bench.report import Report

PEERS = ("flink", "spark_rocksdb", "spark_memory")


class Joins:
    """All measures of window joins, in one run on one machine."""

    PARTS = ("ours", "peers", "theta", "silent", "papers", "growth")

    def __init__(self, seconds: float, memory_minutes: float, only: str, rates: str) -> None:
        """`seconds` of the workload and of held rates; `memory_minutes` of the run with a silent stream."""
        self.seconds = seconds
        self.memory_minutes = memory_minutes
        self.ours: float | None = None
        self.only = set(filter(None, only.split(",")))
        self.report = Report("joins", f"{seconds:.0f} s of three streams", keep=bool(self.only))

    def run(self) -> None:
        parts = {
            "ours": self.measure_ours,
            "peers": self.measure_peers,
            "theta": lambda: measure_theta(self.report, self.seconds),
            "silent": lambda: measure_silent(self.report, self.memory_minutes),
            "papers": lambda: measure_papers(self.report, min(1.0, self.seconds / 60)),
            "growth": lambda: measure_growth(self.report, min(1.0, self.seconds / 60)),
        }
        for name, part in parts.items():
            if not self.only or name in self.only:
                part()
                self.report.save()
        self.report.show()

    def measure_ours(self) -> None:
        self.ours = measure_ours(self.report, int(self.seconds))
        for name in PEERS:
            self.report.values.pop(f"ratio_{name}", None)  # of an earlier run
        measure_latency(self.report, self.seconds)

    def measure_peers(self) -> None:
        """Peers, and how many times as fast we are: only figures of one run are divided, of engines that found the same results."""
        ours = self.ours or measure_ours(self.report, int(self.seconds))
        rates = measure_peers(self.report, int(self.seconds), WARM_SECONDS)
        for name in PEERS:
            self.report.put(f"ratio_{name}", ours / rates[name] if name in rates else None)
