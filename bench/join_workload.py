"""The three-stream workload that peers are compared on: 60 s, 20 000 tuples/s a stream, 200 000 keys, window 10 s.

Seeded as the peers' files are: the join has exactly EXPECTED results. Times are whole milliseconds, because Flink's event times
have no finer ones: with microseconds it would find pairs that are up to a millisecond too far apart. `python -m bench.join_workload URL [SECONDS] [PREFIX]`
pushes it, or the beginning of it, to a server as fast as that takes it, from a process of its own.
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

from bench.join_counts import count_equal

SECONDS, PER_SECOND, KEYS, STREAMS = 60, 60_000, 200_000, 3
ROWS = SECONDS * PER_SECOND
EXPECTED = 3_197_504
WINDOW_S = 10


def tables(prefix: str = "s") -> list[str]:
    return [
        f"CREATE TABLE {prefix}{i} (id INT PRIMARY KEY, r STREAM (k BIGINT, v DOUBLE))"
        " WITH (time = 'valid', out_of_order = 'accept')"
        for i in range(STREAMS)
    ]


def query(name: str = "triples", prefix: str = "s", also: str = "") -> str:
    return (
        f"CREATE QUERY {name} AS SELECT a.k, a.v AS a_v, b.v AS b_v, c.v AS c_v, a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts"
        f" FROM {prefix}0 a, {prefix}1 b, {prefix}2 c WINDOW = {WINDOW_S} SECONDS WHERE a.k = b.k AND b.k = c.k{also}"
    )


TABLES, QUERY = tables(), query()


def seconds(many: int = SECONDS) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """(stream, microseconds, k, v) of each second, in time order. Microseconds are multiples of 1 000."""
    rng = np.random.default_rng(1)
    for second in range(many):
        times = np.sort(rng.uniform(second, second + 1, PER_SECOND))
        stream = rng.integers(0, STREAMS, PER_SECOND).astype(np.int32)
        keys = rng.integers(0, KEYS, PER_SECOND).astype(np.int64)
        yield stream, (times * 1e6).astype(np.int64) // 1000 * 1000, keys, rng.normal(size=PER_SECOND)


def expected(many: int) -> int:
    """The results of the first so many seconds, counted."""
    if many == SECONDS:
        return EXPECTED
    stream, us, k, _ = (np.concatenate(part) for part in zip(*seconds(many), strict=True))
    mine = [stream == i for i in range(STREAMS)]
    return count_equal([us[m] for m in mine], [k[m] for m in mine], WINDOW_S * 1_000_000)


def arrow_stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


# As a loader would: 100 000 rows a push, a third of what a cycle takes.
PUSH_SECONDS = 5


def bodies(origin_us: int, many: int = SECONDS) -> list[tuple[int, bytes]]:
    """Pushes in time order: (stream, Arrow body), one per stream and PUSH_SECONDS of data."""
    found = []
    whole = list(seconds(many))
    for first in range(0, many, PUSH_SECONDS):
        stream, us, k, v = (np.concatenate(c) for c in zip(*whole[first : first + PUSH_SECONDS], strict=True))
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
            found.append((i, arrow_stream(batch)))
    return found


def push(url: str, many: int = SECONDS, prefix: str = "s") -> dict[str, float]:
    """Everything, one connection per stream; returns when the first push began and the last was acknowledged."""
    queues: list[Queue[bytes | None]] = [Queue() for _ in range(STREAMS)]
    for stream, body in bodies(int(time.time() - 3600) * 1_000_000, many):
        queues[stream].put(body)
    for queue in queues:
        queue.put(None)
    began = time.time()

    def send(stream: int) -> None:
        target = f"{url}/v1/tables/{prefix}{stream}/readings"
        with httpx.Client(timeout=120) as client:
            while (body := queues[stream].get()) is not None:
                reply = client.post(
                    target, content=body, headers={"Content-Type": "application/vnd.apache.arrow.stream"}
                )
                reply.raise_for_status()

    threads = [threading.Thread(target=send, args=(i,)) for i in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"began": began, "pushed": time.time()}


if __name__ == "__main__":
    print(json.dumps(push(sys.argv[1], *map(int, sys.argv[2:3]), *sys.argv[3:4])))
