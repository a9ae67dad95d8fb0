"""Aggregates over windows of a query's answer: from a tree over it, and by going through its rows, by size of the answer.

In one process on one core, without Spark. Each question has another window inside the answer, half as long as it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.generator import percentile
from bench.queries_bed import PUSH_ROWS, Bed, local_bed
from bench.query_workload import push_batch
from bench.report import Report
from bench.tables import lines_of, plot, write_table
from penstock.clock import format_timestamp

SMALLEST, LARGEST = 10, 20
"""Powers of two: rows of the answer."""
TIMES, MOST_S = 200, 5.0
SEED = 47
QUERY = "CREATE QUERY seen AS SELECT a, ts FROM readings BEGIN (NOW - 1 HOUR) END (NOW)"
ASKED = "SELECT COUNT(*) AS n, SUM(a) AS total, AVG(a) AS mean, MIN(a) AS least, MAX(a) AS most FROM seen"
WAYS = {
    "question": "asked in SQL",
    "again": "the same text again",
    "tree": "the tree alone",
    "scan": "all rows of the answer",
}

Span = tuple[int, int]


def measure_aggregates(report: Report, scale: float) -> None:
    """`scale` 1 is the whole, less is a rehearsal."""
    table: list[dict[str, Any]] = []
    powers = [p for p in range(SMALLEST, LARGEST + 1) if scale >= 1 or p in (SMALLEST, 15)]
    with local_bed(result_max_rows=2 ** (LARGEST + 1)) as bed:
        bed.database.execute(QUERY)
        for power in powers:
            report.say(f"on demand: an answer of 2^{power} rows")
            grow(bed, table[-1]["rows"] if table else 0, 2**power)
            table.append(row_of(bed, 2**power))
    write_table("queries_aggregates", "Milliseconds of five aggregates over half of an answer, in process, p50", table)
    flat = [{"way": words, "rows": r["rows"], "ms": r[f"{way}_ms"]} for r in table for way, words in WAYS.items()]
    plot("queries_aggregates", {"ms, p50": lines_of(flat, "way", "rows", "ms")}, "rows of the answer", log="xy")
    for way in WAYS:
        report.put(f"aggregate_{way}_ms", table[-1][f"{way}_ms"])
    report.put("aggregate_growth", table[-1]["again_ms"] / table[0]["again_ms"])
    report.put("aggregate_first_question_ms", table[-1]["first_ms"])
    report.put("aggregate_bytes_per_row", table[-1]["bytes_per_row"])


def grow(bed: Bed, have: int, rows: int) -> None:
    """Push until the answer has so many rows, and another cycle lets readers see them."""
    for first in range(have, rows, PUSH_ROWS):
        batch = push_batch(bed.task, bed.pushed, min(PUSH_ROWS, rows - first), 0)
        bed.database.push("readings", pa.table(batch))
        bed.pushed += 1
        if bed.pushed % 20 == 0:
            bed.engine.drain()
    bed.engine.drain()
    bed.database.execute(f"COMMENT ON QUERY seen IS '{rows} rows; a change, so that there is a cycle'")
    bed.engine.drain()


def row_of(bed: Bed, rows: int) -> dict[str, Any]:
    begin = int(bed.task["origin_us"])
    length = round(bed.pushed * float(bed.task["interval_s"]) * 1e6)
    rng = np.random.default_rng(SEED)

    def span() -> Span:
        first = begin + int(rng.integers(length // 2))
        return first, first + length // 2

    once = span()
    began = time.perf_counter()
    asked = question(bed, once)
    first_ms = (time.perf_counter() - began) * 1000
    if asked != scan(bed, once):
        raise RuntimeError(f"{asked} from the tree, {scan(bed, once)} from the rows")
    again = f"{ASKED} BEGIN (NOW - {length // 2} MICROSECONDS) END (NOW)"
    trees = [t.tree for (_, c), t in bed.database.on_demand.trees._trees.items() if str(c) == "a"]
    return {
        "rows": rows,
        "question_ms": p50(question, bed, span),
        "again_ms": p50(lambda _, __: bed.database.execute(again), bed, span),
        "tree_ms": p50(lambda _, s: trees[0].answer(*s), bed, span),
        "scan_ms": p50(scan, bed, span),
        "first_ms": first_ms,
        "bytes_per_row": trees[0].nbytes / rows,
    }


def p50(way: Callable[[Bed, Span], object], bed: Bed, span: Callable[[], Span]) -> float:
    spent: list[float] = []
    deadline = time.monotonic() + MOST_S
    while len(spent) < TIMES and time.monotonic() < deadline:
        chosen = span()
        began = time.perf_counter()
        way(bed, chosen)
        spent.append((time.perf_counter() - began) * 1000)
    return percentile(sorted(spent), 0.5)


def question(bed: Bed, span: Span) -> dict[str, Any]:
    """As somebody types it, from the text to the row."""
    window = f"BEGIN ('{format_timestamp(span[0])}') END ('{format_timestamp(span[1])}')"
    found: list[dict[str, Any]] = bed.database.execute(f"{ASKED} {window}").table.to_pylist()
    return found[0]


def scan(bed: Bed, span: Span) -> dict[str, Any]:
    """The same by invoking the query: its rows, cut to the window and added up by Arrow."""
    rows = bed.database.invoke("seen").table
    times = rows.column("ts").cast(pa.int64())
    values = rows.column("a").filter(pc.and_(pc.greater_equal(times, span[0]), pc.less_equal(times, span[1])))
    ends = pc.min_max(values).as_py()
    return {
        "n": len(values),
        "total": pc.sum(values).as_py(),
        "mean": pc.mean(values).as_py(),
        "least": ends["min"],
        "most": ends["max"],
    }
