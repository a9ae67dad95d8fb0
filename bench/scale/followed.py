"""Aggregates with a subscriber each: 1 000 on a table with a tick, where tables can have one, and 100 without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from bench import followed
from bench.generator import percentile
from bench.scale import Figures
from bench.statistics_aggregates import ASKS_PER_S, RATE
from penstock.catalog.model import TableOptions

TICK_MS = 100
COUNT, EXACT = 1_000, 100


def measure_followed(say: Callable[[str], None], seconds: float, count: int = COUNT) -> Figures:
    ticks = "tick_us" in {option.name for option in fields(TableOptions)}
    if not ticks:
        say("followed: tables have no option `tick` yet; every window is exact")
    found: Figures = {"followed_1000_tick_ms": TICK_MS if ticks else None}
    for name, some, options in (
        ("followed_1000", count, f", tick = '{TICK_MS} MILLISECONDS'" if ticks else ""),
        ("followed_100_exact", EXACT, ""),
    ):
        say(f"followed: {some:,} aggregates, each with a subscriber, {RATE:,} rows/s for {seconds:.0f} s")
        run = followed.run(some, RATE, seconds, followed=True, options=options, asks_per_s=ASKS_PER_S)
        found |= {f"{name}_{key}": value for key, value in followed.figures(run).items()}
        found[f"{name}_invoke_p50_ms"] = percentile(run["invoked_ms"], 0.5)
        found[f"{name}_invoke_p99_ms"] = percentile(run["invoked_ms"], 0.99)
    return found
