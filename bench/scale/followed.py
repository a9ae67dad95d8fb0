"""Aggregates with a subscriber each: 1 000 and 100, all with exact windows. Tables have no tick (decision 0038)."""

from __future__ import annotations

from collections.abc import Callable

from bench import followed
from bench.generator import percentile
from bench.scale import Figures
from bench.statistics_aggregates import ASKS_PER_S, RATE

COUNT, EXACT = 1_000, 100


def measure_followed(say: Callable[[str], None], seconds: float, count: int = COUNT) -> Figures:
    found: Figures = {}
    for name, some in (("followed_1000", count), ("followed_100_exact", EXACT)):
        say(f"followed: {some:,} aggregates, each with a subscriber, {RATE:,} rows/s for {seconds:.0f} s")
        run = followed.run(some, RATE, seconds, followed=True, asks_per_s=ASKS_PER_S)
        found |= {f"{name}_{key}": value for key, value in followed.figures(run).items()}
        found[f"{name}_invoke_p50_ms"] = percentile(run["invoked_ms"], 0.5)
        found[f"{name}_invoke_p99_ms"] = percentile(run["invoked_ms"], 0.99)
    return found
