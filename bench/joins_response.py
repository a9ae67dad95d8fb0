"""How many tuples a second backward and forward evaluation sustain, and how long a tuple waits for its answer.

Throughput is measured: the rate at which a second of data takes a second. Response time is played through: tuples arrive at
their times, a single server takes them in the order of the algorithm, each for as long as measured on average. Backward
takes a tuple when it is there. Forward takes a tuple of the running period when it is there; one beyond the period waits
until every stream's next tuple lies beyond.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.joins_measure import SECOND, Ints, Side, cost, streams, tuples, uniform
from bench.joins_tables import plot, write_table
from bench.report import Report

WINDOW_S = 1.0
FASTEST_TRIED = 2_000_000
NAMES = ("nested_loop", "forward", "hash", "forward_hash")


def compare_throughput(report: Report, scale: float) -> None:
    table = []
    for count in range(2, 7):
        for name in NAMES:
            rate = sustained(name, count, scale)
            table.append(
                {
                    "streams": count,
                    "algorithm": name,
                    "most tuples/s a stream": rate,
                    "": "more was not tried" if 2 * rate > FASTEST_TRIED * scale else "",
                }
            )
    write_table("papers_throughput", "Most tuples per second and stream that are sustained, window 1 s", table)
    lines = {
        n: ([r["streams"] for r in table if r["algorithm"] == n], [r["most tuples/s a stream"] for r in table if r["algorithm"] == n])
        for n in NAMES
    }  # fmt: skip
    plot("papers_throughput", {"tuples/s a stream": lines}, "streams", log="y", ticks=range(2, 7))


def sustained(name: str, count: int, scale: float) -> float:
    """Doubled until it falls behind, then halved in between. As many keys as a window has tuples: one match a stream."""
    low, high, seconds = (64_000.0 if "hash" in name else 1_000.0), 0.0, 2 * WINDOW_S
    steps = 4 if scale >= 1 else 1
    while steps:
        rate = low * 2 if not high else (low + high) / 2
        if rate > FASTEST_TRIED * scale:
            return low
        sides = streams([rate] * count, seconds, int(rate * WINDOW_S), 46)
        busy = cost(name, sides, uniform(count, WINDOW_S), 1).us_per_tuple * tuples(sides) / SECOND
        if busy <= seconds:
            low = rate
        else:
            high = rate
        steps -= bool(high)
    return low


def compare_response(report: Report, scale: float) -> None:
    table = []
    for rate in (100, 300, 1_000, 3_000, 6_000, 8_000, 10_000, 12_000, 14_000):
        sides = streams([float(rate)] * 3, 5 * WINDOW_S, rate, 47)
        for name in ("nested_loop", "forward"):
            service = cost(name, sides, uniform(3, WINDOW_S), 1).us_per_tuple
            order, ready = (
                backward_order(sides) if name == "nested_loop" else forward_order(sides, int(WINDOW_S * SECOND))
            )
            response = played(order, ready, service) / 1000
            table.append(
                {"tuples/s a stream": rate, "algorithm": name, "us per tuple": service, "mean response ms": response}
            )
    write_table("papers_response", "Three streams by nested loops, window 1 s, a key for each tuple of a window", table)
    panels = {
        quantity: {
            n: ([r["tuples/s a stream"] for r in table if r["algorithm"] == n], [r[quantity] for r in table if r["algorithm"] == n])
            for n in ("nested_loop", "forward")
        }
        for quantity in ("mean response ms", "us per tuple")
    }  # fmt: skip
    plot("papers_response", panels, "tuples/s a stream", log="xy")


def played(arrivals: Ints, ready: Ints, service_us: float) -> float:
    """Mean microseconds from a tuple's arrival to its answer, for tuples in the order in which they are taken."""
    free, waited = 0.0, 0.0
    for arrival, earliest in zip(arrivals, ready, strict=True):
        free = max(free, float(earliest)) + service_us
        waited += free - float(arrival)
    return waited / max(1, len(arrivals))


def backward_order(sides: Sequence[Side]) -> tuple[Ints, Ints]:
    times = np.sort(np.concatenate([s.ts for s in sides]))
    return times, times


def forward_order(sides: Sequence[Side], window: int) -> tuple[Ints, Ints]:
    """Arrival of each tuple in the order in which forward evaluation takes it, and when it may."""
    n = len(sides)
    oldest, taken = [0] * n, [0] * n
    arrivals: list[int] = []
    ready: list[int] = []
    may = 0  # the last time that a period was known to be over
    while all(o < len(s) for o, s in zip(oldest, sides, strict=True)):
        first = [int(s.ts[o]) for o, s in zip(oldest, sides, strict=True)]
        latest = max(first)
        behind = [j for j in range(n) if first[j] + window < latest]
        for j in behind:
            oldest[j] = int(np.searchsorted(sides[j].ts, latest - window))
            taken[j] = max(taken[j], oldest[j])
        if behind:
            continue
        end = min(first) + window
        stops = [int(np.searchsorted(s.ts, end, side="right")) for s in sides]
        admitted = np.sort(np.concatenate([s.ts[t:stop] for s, t, stop in zip(sides, taken, stops, strict=True)]))
        arrivals += admitted.tolist()
        # A starting combination is complete when its last tuple has come.
        ready += np.maximum(admitted, max(may, latest)).tolist()
        taken = [max(t, stop) for t, stop in zip(taken, stops, strict=True)]
        if any(stop >= len(s) for stop, s in zip(stops, sides, strict=True)):
            break
        may = max(int(s.ts[stop]) for s, stop in zip(sides, stops, strict=True))
        oldest[first.index(min(first))] += 1
    return np.array(arrivals, np.int64), np.array(ready, np.int64)
