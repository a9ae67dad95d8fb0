"""The papers' figures, ours beside them: response time by window, factors and strategy; arrival rate by number of queries.

In one process on one core, as PSoup was measured. Complete keeps the answer ready, partial keeps what matches and cuts the
window when asked, none keeps nothing and evaluates when asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench.generator import percentile
from bench.queries_bed import Bed, local_bed
from bench.queries_invoke import timed
from bench.queries_probes import join_table, probe_table
from bench.query_workload import LARGEST_WINDOW, SMALLEST_WINDOW, selections
from bench.report import Report
from bench.tables import Lines, lines_of, plot, write_table
from penstock.views import standing_queries

STRATEGIES = ("complete", "partial", "none")
FACTORS = (1, 2, 4, 8)
EACH, TIMES = 8, 60
SEED = 46
AT_WINDOW = 2**15
# PSoup in 2002, milliseconds at a window of 2^15 tuples, by factors: 1, 2 and 4 interval predicates are 2, 4 and 8 factors.
PSOUP = {
    "none": {2: 0.39, 4: 0.49, 8: 0.83},
    "partial": {2: 0.047, 4: 0.024, 8: 0.013},
    "complete": {2: 0.057, 4: 0.021, 8: 0.004},
}
ARRIVAL_COUNTS, ARRIVAL_CYCLE = (10, 100, 1_000), 20_000


def measure_papers(report: Report, scale: float) -> None:
    """`scale` 1 is the whole, less is a rehearsal."""
    for compare in (compare_response, compare_strategies, compare_probes):
        report.say(f"papers: {compare.__name__.partition('_')[2]}")
        compare(report, scale)


def compare_response(report: Report, scale: float) -> None:
    """By window and number of factors."""
    table: list[dict[str, Any]] = []
    powers = [p for p in range(SMALLEST_WINDOW, LARGEST_WINDOW + 1) if scale >= 1 or p in (SMALLEST_WINDOW, 15)]
    with local_bed() as bed:
        bed.push(2 ** (LARGEST_WINDOW + 1))
        bed.engine.drain()
        for factors in FACTORS:
            for power in powers:
                row: dict[str, Any] = {"factors": factors, "window": 2**power}
                row |= {s: response_ms(report, bed, s, factors, power) for s in STRATEGIES}
                row |= {f"{s}, 2002": PSOUP[s].get(factors) if 2**power == AT_WINDOW else None for s in STRATEGIES}
                table.append(row)
    write_table("queries_papers_response", "Milliseconds of an invocation in process, p50", table)
    panels: dict[str, Lines] = {
        f"ms, {f} factors": by_strategy([r for r in table if r["factors"] == f], "window") for f in FACTORS
    }
    plot("queries_papers_response_window", panels, "window, tuples", log="xy")
    at = [r for r in table if r["window"] == AT_WINDOW]
    both = {"ms, window 2^15, ours": by_strategy(at, "factors"), "ms, window 2^15, PSoup 2002": printed()}
    plot("queries_papers_response_factors", both, "factors", log="y", ticks=FACTORS)
    for row in at:
        for s in STRATEGIES:
            report.put(f"response_{s}_{row['factors']}_factors_ms", row[s])


def response_ms(report: Report, bed: Bed, strategy: str, factors: int, power: int) -> float | None:
    """The median over some queries with so many factors and a window of 2^power tuples; None where nothing can be said."""
    chosen = selections(EACH, SEED, factors, 2**power)
    names = bed.register(chosen, f"{strategy}_{factors}_{power}_", strategy)
    try:
        if not kept_as(report, bed, names, strategy):
            return None
        bed.push(1)
        bed.engine.drain()
        spent, _ = timed(lambda name: len(bed.database.invoke(name).table), names, TIMES, most_s=5)
        return percentile(spent, 0.5)
    finally:
        for name in names:
            bed.database.execute(f"DROP QUERY {name}")


def kept_as(report: Report, bed: Bed, names: Sequence[str], strategy: str) -> bool:
    """Whether these queries are kept as it was asked for: a figure under another name would be worse than none."""
    kept = {bed.database.standing.strategy_of(bed.database.definition(name).id) for name in names}
    if kept != {strategy}:
        report.say(f"[bold red]papers: LEFT OUT: {strategy} was asked for, {sorted(kept)} is done")
    return kept == {strategy}


def by_strategy(table: Sequence[dict[str, Any]], x: str) -> Lines:
    flat = [{"strategy": s, x: row[x], "ms": row[s]} for row in table for s in STRATEGIES]
    return lines_of(flat, "strategy", x, "ms")


def printed() -> Lines:
    return {s: (list(known), list(known.values())) for s, known in PSOUP.items()}


def compare_strategies(report: Report, scale: float) -> None:
    """Tuples/s of one core through log, cycle and commit, by number of queries and strategy."""
    table = []
    for count in ARRIVAL_COUNTS:
        row: dict[str, Any] = {"queries": count}
        for strategy in STRATEGIES:
            with all_kept_current(), local_bed() as bed:
                names = bed.register(selections(count, SEED), strategy=strategy)
                bed.push(2**LARGEST_WINDOW)
                bed.engine.drain()
                kept = kept_as(report, bed, names, strategy)
                tuples = max(1, int(10 * scale)) * ARRIVAL_CYCLE
                row[strategy] = bed.rows_per_s(tuples, ARRIVAL_CYCLE) if kept else None
        table.append(row)
    title = (
        "Tuples/s that one core takes in, whole cycles of 20 000 tuples (PSoup 2002: partial about 100 times complete)"
    )
    write_table("queries_papers_arrival", title, table)
    flat = [{"strategy": s, "queries": row["queries"], "tuples/s": row[s]} for row in table for s in STRATEGIES]
    lines = lines_of(flat, "strategy", "queries", "tuples/s")
    plot("queries_papers_arrival", {"tuples/s of one core": lines}, "queries", log="xy")


@contextmanager
def all_kept_current() -> Iterator[None]:
    """A server moves only so many complete answers on as a cycle has time for; here it is to be seen what all of them cost."""
    usual, standing_queries.READY_SECONDS = standing_queries.READY_SECONDS, float("inf")
    try:
        yield
    finally:
        standing_queries.READY_SECONDS = usual


def compare_probes(report: Report, scale: float) -> None:
    """PSoup's composite tuples: one probe with the set of partial matches against one per partial match."""
    probes = probe_table(scale)
    write_table("queries_papers_probes", "Probes of a new tuple into a window of 2^15 partners, by queries", probes)
    joins = join_table(scale)
    write_table("queries_papers_probes_joins", "Tuples/s of one core, joins r.a < s.a + c that differ in c", joins)
    kinds = ("composite", "separate")
    counts = [row["queries"] for row in probes]
    panels: dict[str, Lines] = {
        "microseconds for a tuple": {k: (counts, [row[f"{k} us"] for row in probes]) for k in kinds},
        "comparisons for a tuple": {k: (counts, [row[f"{k} comparisons"] for row in probes]) for k in kinds},
        "tuples/s of one core, whole joins": {k: ([r["joins"] for r in joins], [r[k] for r in joins]) for k in kinds},
    }
    plot("queries_papers_probes", panels, "queries", log="xy")
    for row in probes:
        for kind in kinds:
            report.put(f"probe_{kind}_{row['queries']}_queries_us", row[f"{kind} us"])
            report.put(f"probe_{kind}_{row['queries']}_queries_comparisons", row[f"{kind} comparisons"])
    for row in joins:
        for kind in kinds:
            report.put(f"probe_{kind}_{row['joins']}_joins_rows_per_s", row[kind])
