"""What one more selection of W100k takes, by the file that made it: `python -m bench.queries_bytes [--count N]`.

One process without Spark has the parts of a server, of the planner and of a worker, so what a real server keeps in each of its workers
counts once. Bytes are those that Python has asked for (tracemalloc), without what its allocator keeps back.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.local_database import local_database
from bench.queries_server import sensors_sql, table_sql
from bench.report import Report
from bench.scale.selections import RATE, SEED, SENSORS, SETTINGS, workload
from penstock import __file__ as package

AT_ONCE, READINGS, LARGEST = 1_000, 2_000, 12


def measure_bytes(report: Report, count: int) -> None:
    """Register twice as many, and compare: the first half has made what all of them share."""
    chosen = workload(2 * count)
    order = np.random.default_rng(SEED).permutation(len(chosen)).tolist()
    named = [(f"q{number}", chosen[number].sql(RATE)) for number in order]
    root = Path(package).parent
    with local_database(**SETTINGS) as (database, engine):

        def register(some: list[tuple[str, str]]) -> tracemalloc.Snapshot:
            for first in range(0, len(some), AT_ONCE):
                database.register(some[first : first + AT_ONCE])
            columns = {name: pa.array(np.zeros(READINGS, np.int32)) for name in "abcd"}
            columns |= {"sensor_id": pa.array(range(READINGS), pa.int32()), "marker": pa.nulls(READINGS, pa.int64())}
            database.push("readings", pa.table(columns))
            engine.drain()
            gc.collect()
            return tracemalloc.take_snapshot()

        database.execute(table_sql(own_times=False))
        database.execute(sensors_sql(SENSORS))
        tracemalloc.start()
        before, after = register(named[:count]), register(named[count:])
        tracemalloc.stop()
    found: Counter[str] = Counter()
    for each in after.compare_to(before, "filename"):
        path = Path(each.traceback[0].filename)
        found[str(path.relative_to(root)) if path.is_relative_to(root) else path.name] += each.size_diff
    report.put("bytes_per_selection", sum(found.values()) / count, digits=0)
    for name, size in found.most_common(LARGEST):
        report.put(name, size / count, digits=0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.queries_bytes", description=__doc__)
    parser.add_argument(
        "--count", type=int, default=5_000, help="of the selections that are compared with as many before"
    )
    options = parser.parse_args()
    report = Report("queries_bytes", f"{options.count} more selections of W100k")
    measure_bytes(report, options.count)
    report.show()


if __name__ == "__main__":
    main()
