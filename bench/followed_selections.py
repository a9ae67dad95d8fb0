"""What subscribers of selections cost: `python -m bench.followed_selections`, in one process and without Spark.

Each of the subscribers follows an alarm of one sensor, as in workload W100k. Measured is the processor time of all their events of a
cycle. Results: bench/results/followed_selections.{json,md}.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa

from bench.local_database import local_database
from bench.report import Report
from penstock.answers.subscription import Subscription
from penstock.clock import SECOND
from tests.support.manual_clock import ManualClock

QUERIES, SENSORS, RATE, VALUES = 1_000, 10_000, 100_000, 256
BEGAN_US = 1_763_190_000_000_000
PUSHES_PER_S = 20


def readings(chance: np.random.Generator, began_us: int, rows: int) -> pa.Table:
    times = began_us + np.arange(rows, dtype=np.int64) * (SECOND // PUSHES_PER_S) // rows
    columns = {name: pa.array(chance.integers(0, VALUES, rows, dtype=np.int32)) for name in "abcd"}
    ids = pa.array(chance.integers(0, SENSORS, rows, dtype=np.int32))
    return pa.table({"sensor_id": ids, "ts": pa.array(times).cast(pa.timestamp("us", "UTC")), **columns})


def run(report: Report, queries: int, cycles: int, pushes: int) -> None:
    chance, clock = np.random.default_rng(16), ManualClock(BEGAN_US)
    with local_database(clock, queries_max=200_000) as (database, engine):
        database.execute(
            "CREATE TABLE readings (sensor_id INT PRIMARY KEY, r STREAM (a INT, b INT, c INT, d INT)) WITH (time = 'valid')"
        )
        database.execute(f"INSERT INTO readings VALUES {', '.join(f'({i}, NULL)' for i in range(SENSORS))}")
        for number in range(queries):
            sensor, least = int(chance.integers(SENSORS)), int(chance.integers(VALUES))
            where = f"sensor_id = {sensor} AND a >= {least} BEGIN (NOW - 10 SECONDS) END (NOW)"
            database.execute(f"CREATE QUERY q{number} AS SELECT sensor_id, a, b, c, d FROM readings WHERE {where}")
        engine.drain()
        followers = [Subscription(database.standing, f"q{number}", None, False) for number in range(queries)]
        spent, events, rows = [], 0, 0
        for cycle in range(cycles):
            for _ in range(pushes):
                database.push("readings", readings(chance, clock.now_us(), RATE // PUSHES_PER_S))
                clock.advance(SECOND // PUSHES_PER_S)
            engine.cycle()
            began = time.process_time()
            for follower in followers:
                while (event := follower.next(0)) is not None:
                    if cycle >= cycles // 4:
                        events, rows = events + 1, rows + event.table.num_rows
            if cycle >= cycles // 4:
                spent.append((time.process_time() - began) * 1000)
        report.put("followed_selections_cycle_ms", float(np.median(spent)))
        report.put("followed_selections_event_us", sum(spent) * 1000 / max(1, events))
        report.put("followed_selections_events", events)
        report.put("followed_selections_rows", rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.followed_selections", description=__doc__)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--cycles", type=int, default=40)
    parser.add_argument("--pushes", type=int, default=4, help="of 5 000 rows, in each cycle")
    options = parser.parse_args()
    report = Report("followed_selections", f"{options.queries} subscribers")
    run(report, options.queries, options.cycles, options.pushes)
    report.save()
    report.show()


if __name__ == "__main__":
    main()
