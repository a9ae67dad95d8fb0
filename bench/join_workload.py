"""The three-stream workload that peers are compared on: 60 s, 20 000 tuples/s a stream, 200 000 keys, window 10 s.

Seeded as the peers' files are: the join has exactly EXPECTED results. `python -m bench.join_workload URL` pushes it to
a server as fast as it takes it, from a process of its own.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from queue import Queue

import httpx
import numpy as np
import pyarrow as pa

SECONDS, PER_SECOND, KEYS, STREAMS = 60, 60_000, 200_000, 3
ROWS = SECONDS * PER_SECOND
EXPECTED = 3_197_179
WINDOW_S = 10
TABLES = [
    f"CREATE TABLE s{i} (id INT PRIMARY KEY, r STREAM (k BIGINT, v DOUBLE)) WITH (time = 'valid', out_of_order = 'accept')"
    for i in range(STREAMS)
]
QUERY = (
    "CREATE QUERY triples AS SELECT a.k, a.v AS a_v, b.v AS b_v, c.v AS c_v, a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts"
    f" FROM s0 a, s1 b, s2 c WINDOW = {WINDOW_S} SECONDS WHERE a.k = b.k AND b.k = c.k"
)


def seconds() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """(stream, microseconds, k, v) of each second, in time order."""
    rng = np.random.default_rng(1)
    for second in range(SECONDS):
        times = np.sort(rng.uniform(second, second + 1, PER_SECOND))
        stream = rng.integers(0, STREAMS, PER_SECOND).astype(np.int32)
        keys = rng.integers(0, KEYS, PER_SECOND).astype(np.int64)
        yield stream, (times * 1e6).astype(np.int64), keys, rng.normal(size=PER_SECOND)


def bodies(origin_us: int) -> list[tuple[int, bytes]]:
    """Pushes in time order: (stream, Arrow body), one per stream and second."""
    found = []
    for stream, us, k, v in seconds():
        for i in range(STREAMS):
            mine = stream == i
            count = int(mine.sum())
            batch = pa.record_batch(
                {
                    "id": pa.array(np.full(count, 1), pa.int32()),
                    "ts": pa.array(us[mine] + origin_us).cast(pa.timestamp("us", tz="UTC")),
                    "k": pa.array(k[mine]),
                    "v": pa.array(v[mine]),
                }
            )
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            found.append((i, bytes(sink.getvalue())))
    return found


def push(url: str) -> dict[str, float]:
    """Everything, one connection per stream; returns when the first push began and the last was acknowledged."""
    queues: list[Queue[bytes | None]] = [Queue() for _ in range(STREAMS)]
    for stream, body in bodies(int(time.time() - 3600) * 1_000_000):
        queues[stream].put(body)
    for queue in queues:
        queue.put(None)
    began = time.time()

    def send(stream: int) -> None:
        target = f"{url}/v1/tables/s{stream}/readings"
        with httpx.Client(timeout=120) as client:
            while (body := queues[stream].get()) is not None:
                reply = client.post(target, content=body, headers={"Content-Type": "application/vnd.apache.arrow.stream"})
                reply.raise_for_status()

    threads = [threading.Thread(target=send, args=(i,)) for i in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"began": began, "pushed": time.time()}


if __name__ == "__main__":
    print(json.dumps(push(sys.argv[1])))
