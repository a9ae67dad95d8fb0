"""The three-stream join on Flink SQL. `python flink_join.py FOLDER WARM_FOLDER`, in an environment with apache-flink.

The timed job writes to the blackhole connector, the cheapest way out, which counts nothing. So before it, as the warm-up,
the same join runs once over the same files with a count on top.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

WINDOW = "INTERVAL '10' SECOND"
SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.memory.process.size": "6g",
    "state.backend.type": "hashmap",
}
# Only for the counting job: its one result changes with every row.
COUNTING = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "5 s",
    "table.exec.mini-batch.size": "100000",
}
NEAR = "{left}.k = {right}.k AND {right}.ts BETWEEN {left}.ts - " + WINDOW + " AND {left}.ts + " + WINDOW
JOIN = (
    f"FROM s0 a JOIN s1 b ON {NEAR.format(left='a', right='b')} JOIN s2 c ON {NEAR.format(left='a', right='c')}"
    f" AND c.ts BETWEEN b.ts - {WINDOW} AND b.ts + {WINDOW}"
)


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def environment(folder: str, settings: dict[str, str]) -> TableEnvironment:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in settings.items():
        env.get_config().set(name, value)
    for number in range(3):
        env.execute_sql(
            f"CREATE TABLE s{number} (us BIGINT, k BIGINT, v DOUBLE, ts AS TO_TIMESTAMP_LTZ(us / 1000, 3),"
            " WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)"
            f" WITH ('connector' = 'filesystem', 'path' = '{folder}/{number}', 'format' = 'csv')"
        )
    return env


def count(folder: str) -> int:
    env = environment(folder, SETTINGS | COUNTING)
    last = 0
    with env.execute_sql(f"SELECT COUNT(*) {JOIN}").collect() as rows:
        for row in rows:
            last = int(row[0])
    return last


def run(folder: str) -> float:
    """Seconds that the job ran, without its submission."""
    env = environment(folder, SETTINGS)
    env.execute_sql("CREATE TABLE found (a BIGINT, b BIGINT, c BIGINT, k BIGINT) WITH ('connector' = 'blackhole')")
    job = env.execute_sql(f"INSERT INTO found SELECT a.us, b.us, c.us, a.k {JOIN}")
    job.wait()
    client = job.get_job_client()
    assert client is not None
    return float(client.get_job_execution_result().result().get_net_runtime()) / 1000


def main(folder: str) -> None:
    results = count(folder)
    say(event="begin")
    seconds = run(folder)
    say(event="end", results=results, seconds=seconds)


if __name__ == "__main__":
    main(sys.argv[1])
