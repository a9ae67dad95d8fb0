"""Standing queries: how many, how fast, what each takes, against unshared ones, Spark and DuckDB, and while they come and go."""

from __future__ import annotations

from bench.queries_aggregates import measure_aggregates
from bench.queries_churn import measure_churn
from bench.queries_invoke import measure_invoke
from bench.queries_memory import measure_memory
from bench.queries_papers import measure_papers
from bench.queries_peers import measure_duckdb, measure_spark
from bench.queries_register import measure_register
from bench.queries_selections import COUNTS, RATES, measure_selections
from bench.queries_unshared import measure_unshared
from bench.report import Report


class Queries:
    """All measures of standing queries, in one run on one machine."""

    PARTS = ("selections", "memory", "register", "invoke", "on_demand", "alternatives", "papers", "churn")

    def __init__(self, seconds: float, memory_minutes: float, only: str, rates: str, counts: str = "") -> None:
        """`seconds` that each rate is held; `memory_minutes` of the run in which queries come and go."""
        self.seconds = seconds
        self.memory_minutes = memory_minutes
        self.rates = [int(r) for r in rates.split(",")] if rates else list(RATES)
        self.counts = [int(c) for c in counts.split(",")] if counts else list(COUNTS)
        self.only = set(filter(None, only.split(",")))
        self.report = Report("queries", f"each rate held for {seconds:.0f} s", keep=bool(self.only))

    def run(self) -> None:
        scale = min(1.0, self.seconds / 60)
        parts = {
            "selections": lambda: measure_selections(self.report, self.seconds, self.counts, self.rates),
            "memory": lambda: measure_memory(self.report, self.seconds, max(self.counts), max(self.rates)),
            "register": lambda: measure_register(self.report),
            "invoke": lambda: measure_invoke(self.report),
            "on_demand": lambda: measure_aggregates(self.report, scale),
            "alternatives": lambda: self.measure_alternatives(scale),
            "papers": lambda: measure_papers(self.report, scale),
            "churn": lambda: measure_churn(self.report, self.memory_minutes),
        }
        for name, part in parts.items():
            if not self.only or name in self.only:
                part()
                self.report.save()
        self.report.show()

    def measure_alternatives(self, scale: float) -> None:
        measure_unshared(self.report, self.counts, scale)
        duckdb = measure_duckdb(self.report)
        ours = self.report.values.get("invoke_process_p50_ms")
        self.report.put("ratio_duckdb_invoke", duckdb / ours if duckdb and ours else None)
        measure_spark(self.report, self.seconds)
