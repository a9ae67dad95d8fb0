"""The papers' comparisons of window joins, all on the same compiled tier: times with comparison counts beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.joins_measure import (
    OURS,
    SECOND,
    Bounds,
    Cost,
    Side,
    cost,
    exponential,
    side,
    streams,
    tuples,
    uniform,
    until,
)
from bench.joins_response import compare_response, compare_throughput
from bench.joins_tables import Lines, plot, write_table
from bench.report import Report
from penstock.operators.join.kernels.bounds import close

FAMILY = ("nested_loop", "hash", "forward", "forward_hash", OURS)
FASTEST = 1_000.0


def measure_papers(report: Report, scale: float) -> None:
    """`scale` 1 is the whole, less is a rehearsal on less data."""
    for compare in (
        compare_stores,
        compare_streams,
        compare_changing_rate,
        compare_gca_lca,
        compare_paths,
        compare_throughput,
        compare_response,
    ):
        report.say(f"papers: {compare.__name__.replace('_', ' ')}")
        compare(report, scale)


def line(name: str, found: Cost, **first: Any) -> dict[str, Any]:
    return {
        **first,
        "algorithm": name,
        "us per tuple": found.us_per_tuple,
        "comparisons per tuple": found.comparisons,
        "results": found.results,
    }


def compare_stores(report: Report, scale: float) -> None:
    """Stores that sell the same item within the hour, busy when they open and close; against ripple join and XJoin."""
    table, names = [], ("ripple", "xjoin", *FAMILY)
    for count in (2, 3, 4):
        sides, bounds = stores(count, max(2.0, 8 * scale)), uniform(count, 3600)
        for name in names:
            table.append(line(name, cost(name, sides, bounds), streams=count))
    write_table("papers_stores", "Same item within an hour, purge every 10 000 tuples", table)
    sides, bounds = stores(3, max(2.0, 8 * scale)), uniform(3, 3600)
    over_time("papers_stores", ("ripple", "xjoin", "nested_loop", "hash", "forward", "forward_hash"), sides, bounds)


def stores(count: int, hours: float) -> list[Side]:
    """5 000 tuples an hour over all streams, twice as many in the first and the last tenth; 500 items."""
    rng = np.random.default_rng(41)
    found = []
    for _ in range(count):
        even = exponential(5_000 / count / 3600, hours * 3600, rng) / (hours * 3600 * SECOND)
        busy = np.interp(even, [0, 1 / 6, 5 / 6, 1], [0, 0.1, 0.9, 1])
        found.append(side((busy * hours * 3600 * SECOND).astype(np.int64), 500, rng))
    return found


def over_time(name: str, algorithms: Sequence[str], sides: Sequence[Side], bounds: Bounds) -> None:
    """Service time and comparisons per tuple, averaged over a thousand tuples: differences between longer and longer runs."""
    marks = list(range(0, tuples(sides) + 1, 1000))
    costs: dict[str, tuple[list[float], list[float]]] = {}
    for algorithm in algorithms:
        spent, compared = [0.0], [0.0]
        for mark in marks[1:]:
            prefix = until(sides, mark)
            found = cost(algorithm, prefix, bounds, repeat=3)
            spent.append(found.us_per_tuple * tuples(prefix))
            compared.append((found.comparisons or 0.0) * tuples(prefix))
        # A longer run takes no less than a shorter one: what a shorter one took more was not its own.
        spent = list(np.minimum.accumulate(spent[::-1])[::-1])
        costs[algorithm] = (list(np.diff(spent) / 1000), list(np.diff(compared) / 1000))
    panels: dict[str, Lines] = {
        quantity: {a: (marks[1:], c[i]) for a, c in costs.items()}
        for i, quantity in enumerate(("us per tuple", "comparisons per tuple"))
    }
    plot(name, panels, "tuples", log="y")


def compare_streams(report: Report, scale: float) -> None:
    """Two to six streams with exponential gaps, all at 1 000/s or from 100/s to 1 000/s."""
    table: list[dict[str, Any]] = []
    for kind in ("alike", "different"):
        for count in range(2, 7):
            rates = [FASTEST] * count if kind == "alike" else list(np.linspace(100, FASTEST, count))
            sides, bounds = streams(rates, 20 * scale, 1000, 42), uniform(count, 1)
            for name in (*FAMILY, "fastest_first"):
                table.append(line(name, cost(name, sides, bounds), rates=kind, streams=count))
    write_table("papers_streams", "Two to six streams, window 1 s, 1 000 keys", table)
    panels = {
        f"{quantity}, rates {kind}": _lines([r for r in table if r["rates"] == kind], "streams", quantity)
        for kind in ("alike", "different")
        for quantity in ("us per tuple", "comparisons per tuple")
    }
    plot("papers_streams", panels, "streams", log="y", ticks=range(2, 7))


def _lines(table: Sequence[dict[str, Any]], x: str, y: str) -> Lines:
    names = dict.fromkeys(r["algorithm"] for r in table if r[y] is not None)
    return {
        n: ([r[x] for r in table if r["algorithm"] == n], [r[y] for r in table if r["algorithm"] == n]) for n in names
    }


def compare_changing_rate(report: Report, scale: float) -> None:
    """Four streams at 1 000/s; one of them then flips between 10/s and 1 000/s every 100 tuples."""
    seconds, table = 10 * scale, []
    rng = np.random.default_rng(43)
    steady = [exponential(FASTEST, 2 * seconds, rng) for _ in range(4)]
    flipping, at, fast = [steady[3][steady[3] < seconds * SECOND]], seconds * SECOND, False
    while at < 2 * seconds * SECOND:
        times = at + np.cumsum(rng.exponential(SECOND / (FASTEST if fast else 10), 100))
        flipping.append(times[times < 2 * seconds * SECOND].astype(np.int64))
        at, fast = float(times[-1]), not fast
    changing = [side(ts, 1000, rng) for ts in (*steady[:3], np.concatenate(flipping))]
    names = ("nested_loop", "hash", "forward", "forward_hash", "fastest_first")
    steady_part, flipping_part = between(changing, 0, seconds), between(changing, seconds, 2 * seconds)
    for name in names:
        for phase, sides in (("steady", steady_part), ("flipping", flipping_part)):
            table.append(line(name, cost(name, sides, uniform(4, 1)), phase=phase))
    write_table("papers_changing_rate", "One of four streams flips between 10/s and 1 000/s", table)
    over_time("papers_changing_rate", names, changing, uniform(4, 1))


def between(sides: Sequence[Side], first_s: float, end_s: float) -> list[Side]:
    edges = [np.searchsorted(s.ts, [first_s * SECOND, end_s * SECOND]) for s in sides]
    parts = [(s, slice(*edge)) for s, edge in zip(sides, edges, strict=True)]
    return [Side(s.ts[part], s.fresh[part], None if s.key is None else s.key[part]) for s, part in parts]


def compare_gca_lca(report: Report, scale: float) -> None:
    """Four streams at 1 000/s whose windows are 0.8 s or 0.1 s, one pair has 1 s; with and without keys looked up."""
    table = []
    for window in (0.8, 0.1):
        pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
        size = {pair: int((1.0 if pair == (0, 1) else window) * SECOND) for pair in pairs}
        bounds = close(4, [(i, j, -w, w) for (i, j), w in size.items()])
        sides = streams([FASTEST] * 4, 10 * scale, 1000, 44)
        for name in ("gca_nested", "lca_nested", "nested_loop", "gca", "lca", "hash", OURS):
            table.append(line(name, cost(name, sides, bounds), windows=f"{window} s, one 1 s"))
    write_table("papers_gca_lca", "Four streams, one pair with a larger window", table)


def compare_paths(report: Report, scale: float) -> None:
    """A path of four streams, rates alike or very different: pair by pair along the path against LCA."""
    table = []
    for kind, rates in (("alike", [300.0] * 4), ("1000, 300, 100, 10", [1000.0, 300.0, 100.0, 10.0])):
        sides = streams(rates, 20 * scale, 500, 45)
        bounds = close(4, [(i, i + 1, -SECOND, SECOND) for i in range(3)])
        for name in (
            "nested_loop",
            "extended_nested",
            "lca_nested",
            "gca_nested",
            "hash",
            "extended",
            "lca",
            "gca",
            OURS,
        ):
            table.append(line(name, cost(name, sides, bounds), rates=kind))
    write_table("papers_paths", "A path of four streams, 1 s between neighbours", table)
