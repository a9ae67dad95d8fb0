"""The predicate index against the same queries unshared: one index each, the same compiled code over the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from bench.queries_bed import local_bed
from bench.query_workload import ATTRIBUTES, readings, selections
from bench.report import Report
from bench.tables import plot, write_table
from penstock.expr.expression import Expr
from penstock.expr.predicate_index import PredicateIndex

ROWS = 20_000
"""Of a batch: a cycle of a fifth of a second at 100 000 tuples/s."""
SEED = 41
VERSIONS = pa.table({"sensor_id": pa.array([0], pa.int32())})


def measure_unshared(report: Report, counts: Sequence[int], scale: float) -> list[dict[str, Any]]:
    """Tuples/s of one core by number of queries; `ratio_unshared` is for the most of them."""
    report.say(f"alternatives: {max(counts):,} queries in one index, and in one each")
    predicates = predicates_of(max(counts))
    rows = max(2_000, int(ROWS * scale))
    columns, vids = batch(rows)
    table = []
    for count in counts:
        shared = seconds(whole(predicates[:count]), columns, vids)
        unshared = seconds(each(predicates[:count]), columns, vids)
        table.append(
            {"queries": count, "shared": rows / shared, "unshared": rows / unshared, "times": unshared / shared}
        )
    write_table(
        "queries_arrival",
        "Tuples/s that one core takes in, predicates only (PSoup 2002: shared about 10 times unshared)",
        table,
    )
    lines = {way: ([r["queries"] for r in table], [r[way] for r in table]) for way in ("shared", "unshared")}
    plot("queries_arrival", {"tuples/s of one core": lines}, "queries", log="xy")
    last = table[-1]
    report.put(f"shared_tuples_per_s_{last['queries']}_queries", last["shared"])
    report.put(f"unshared_tuples_per_s_{last['queries']}_queries", last["unshared"])
    report.put("ratio_unshared", last["times"])
    return table


def predicates_of(count: int) -> list[Expr | None]:
    """As the planner makes them from SQL."""
    with local_bed() as bed:
        names = bed.register(selections(count, SEED))
        return [bed.predicate(name) for name in names]


def batch(rows: int) -> tuple[dict[str, pa.Array], np.ndarray]:
    found = readings(SEED, 0, rows)
    return {name: pa.array(found[name]) for name in ATTRIBUTES}, np.zeros(rows, np.int32)


def whole(predicates: Sequence[Expr | None]) -> list[PredicateIndex]:
    return [PredicateIndex([(number, None, predicate) for number, predicate in enumerate(predicates)])]


def each(predicates: Sequence[Expr | None]) -> list[PredicateIndex]:
    return [PredicateIndex([(number, None, predicate)]) for number, predicate in enumerate(predicates)]


def answer(index: PredicateIndex, columns: dict[str, pa.Array], vids: np.ndarray) -> None:
    """As the pipeline asks for it: a matrix of bits where the index gives one, else a bitmap per query."""
    matrix: Callable[..., Any] | None = getattr(index, "match_matrix", None)
    if matrix is not None:
        matrix(columns, vids, VERSIONS)
        return
    for _ in index.match(columns, vids, VERSIONS):
        pass


def seconds(indices: Sequence[PredicateIndex], columns: dict[str, pa.Array], vids: np.ndarray) -> float:
    """For one batch; the best of some, after one that compiles."""
    answer(indices[0], columns, vids)
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        for index in indices:
            answer(index, columns, vids)
        best = min(best, time.perf_counter() - began)
        if best > 5:
            break
    return best
