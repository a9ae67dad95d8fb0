"""Composite against separate probes: joins R.a < S.b + c that differ in c, all at once or one after the other.

First the probes alone, over the partners of one window in order: times and comparisons. Then whole joins in the pipeline
without Spark, shared and each on its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from bench.local_database import local_database
from bench.probes import composite_probes, separate_probes
from bench.query_workload import ROUND, ROUND_SHARE, VALUES
from penstock.operators.join.steps import join_sharing

QUERIES = (1, 10, 100, 1_000)
WINDOW = 2**15
NEW = 1_000
JOINS, JOIN_WINDOW, JOIN_CYCLE = (1, 10, 100), 2**12, 2**11
SEED = 47
# What a pair of values has to differ by at least for joins to keep about one pair in a hundred.
FAR = 0.85 * VALUES


def constants(count: int) -> np.ndarray:
    """By the design's workload: multiples of 32 with probability 0.2, else uniform."""
    chance = np.random.default_rng(SEED)
    uniform = chance.integers(-VALUES, VALUES, count)
    return np.where(chance.random(count) < ROUND_SHARE, uniform // ROUND * ROUND, uniform).astype(np.float64)


def probe_table(scale: float) -> list[dict[str, Any]]:
    """By number of queries: microseconds and comparisons for a new tuple."""
    chance = np.random.default_rng(SEED)
    new = chance.integers(0, VALUES, max(50, int(NEW * scale))).astype(np.float64)
    partners = np.sort(chance.integers(0, VALUES, WINDOW).astype(np.float64))
    table = []
    for queries in QUERIES:
        asked = np.sort(constants(queries))
        distinct, which = np.unique(asked, return_inverse=True)
        composite, separate = (
            _timed(composite_probes, new, partners, distinct),
            _timed(separate_probes, new, partners, asked),
        )
        assert np.array_equal(composite[0][:, which], separate[0])
        table.append(
            {
                "queries": queries,
                "composite us": composite[2] / len(new) * 1e6,
                "separate us": separate[2] / len(new) * 1e6,
                "composite comparisons": composite[1] / len(new),
                "separate comparisons": separate[1] / len(new),
            }
        )
    return table


def _timed(probes: Callable[..., tuple[np.ndarray, int]], *arguments: np.ndarray) -> tuple[np.ndarray, int, float]:
    probes(*arguments)
    began = time.perf_counter()
    found, compared = probes(*arguments)
    return found, compared, time.perf_counter() - began


def join_table(scale: float) -> list[dict[str, Any]]:
    """By number of joins: tuples/s of one core through log, cycle and commit."""
    table = []
    for joins in JOINS:
        if joins > 10 and scale < 1:
            continue
        cycles = max(2, int(5 * scale))
        (composite, results), (separate, wanted) = (_rows_per_s(joins, shares, cycles) for shares in (True, False))
        if results != wanted:
            raise RuntimeError(f"{joins} joins: {results} results from composite probes, {wanted} from separate ones")
        table.append({"joins": joins, "composite": composite, "separate": separate, "results": results})
    return table


def _rows_per_s(joins: int, shares: bool, cycles: int) -> tuple[float, int]:
    before, join_sharing.SHARING = join_sharing.SHARING, shares
    try:
        with local_database() as (database, engine):
            for name in "rs":
                database.execute(
                    f"CREATE TABLE {name} (id INT PRIMARY KEY, reading STREAM (a DOUBLE)) WITH (time = 'valid')"
                )
                database.execute(f"INSERT INTO {name} VALUES (1, NULL)")
            for number in range(joins):
                far = FAR + number * (VALUES - FAR) / joins
                database.execute(
                    f"CREATE QUERY q{number} AS SELECT r.a FROM r, s WINDOW = {JOIN_WINDOW} MILLISECONDS"
                    f" WHERE r.a < s.a - {far}"
                )
            chance, at_us, spent = np.random.default_rng(SEED), int((time.time() - 7_200) * 1e6), 0.0
            warm = 2 * JOIN_WINDOW // JOIN_CYCLE + 2
            for cycle in range(warm + cycles):
                times = pa.array(at_us + np.arange(JOIN_CYCLE) * 1_000).cast(pa.timestamp("us", tz="UTC"))
                at_us += JOIN_CYCLE * 1_000
                for name in "rs":
                    values = pa.array(chance.integers(0, VALUES, JOIN_CYCLE).astype(np.float64))
                    sensor = pa.array(np.ones(JOIN_CYCLE, np.int32))
                    database.push(name, pa.table({"id": sensor, "ts": times, "a": values}))
                began = time.perf_counter()
                engine.drain()
                spent += (time.perf_counter() - began) if cycle >= warm else 0.0
            results = sum(int(query["matched"] or 0) for query in database.queries())
            return 2 * JOIN_CYCLE * cycles / spent, results
    finally:
        join_sharing.SHARING = before
