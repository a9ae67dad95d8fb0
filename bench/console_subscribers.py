"""Those who read one query's events, in a process of their own: `python -m bench.console_subscribers JSON`.

It says `ready` when all are connected. Then it is told on its standard input how many rows there were, waits until everybody has
them, and prints one JSON object. A slow reader asks as the others do, and then reads nothing.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from bench.generator import percentile

LINE_MAX = 1 << 24
LAST_ONES_S = 30.0


@dataclass
class Heard:
    """What one reader has heard: rows with their numbers, and how long after its push each was there."""

    rows: int = 0
    total: int = 0
    """Of the rows' numbers, so that one row twice does not stand for two."""
    frames: int = 0
    size: int = 0
    delays_ms: list[float] = field(default_factory=list)

    def take(self, data: bytes, now_us: float) -> None:
        rows = orjson.loads(data)["rows"]
        self.frames += 1
        self.size += len(data)
        self.rows += len(rows)
        self.total += sum(row["seq"] for row in rows)
        self.delays_ms += [(now_us - sent) / 1000 for sent in {row["sent"] for row in rows}]


def missing_rows(heard: list[Heard], rows: int) -> int:
    """Rows, numbered from 0, that readers have not had; one whose numbers do not add up lacks at least one."""
    total = rows * (rows - 1) // 2
    return sum(0 if (one.rows, one.total) == (rows, total) else max(1, rows - one.rows) for one in heard)


def request(task: dict[str, Any]) -> bytes:
    return f"GET /v1/queries/{task['query']}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


async def follow(task: dict[str, Any], heard: Heard, connected: asyncio.Semaphore) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", task["port"], limit=LINE_MAX)
    writer.write(request(task))
    try:
        while line := await reader.readline():
            if line.startswith(b"retry:"):
                connected.release()
            elif line.startswith(b'data: {"cycle"'):
                heard.take(line[6:], time.time() * 1e6)
    finally:
        writer.close()


def stop_reading(task: dict[str, Any]) -> socket.socket:
    """A reader whose connection stands, and who has read only that it does."""
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", task["port"]))
    slow.sendall(request(task))
    slow.recv(64)
    return slow


async def read_all(task: dict[str, Any]) -> dict[str, Any]:
    heard = [Heard() for _ in range(task["readers"])]
    connected = asyncio.Semaphore(0)
    following = [asyncio.ensure_future(follow(task, one, connected)) for one in heard]
    for _ in heard:
        await asyncio.wait_for(connected.acquire(), 60)
    slow = stop_reading(task) if task["slow"] else None
    print("ready", flush=True)
    rows = int(await asyncio.to_thread(sys.stdin.readline))
    deadline = time.monotonic() + LAST_ONES_S
    while any(one.rows < rows for one in heard) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    for reader in following:
        reader.cancel()
    ended = await asyncio.gather(*following, return_exceptions=True)
    if slow is not None:
        slow.close()
    delays = sorted(delay for one in heard for delay in one.delays_ms)
    return {
        "missing": missing_rows(heard, rows),
        "frames": sum(one.frames for one in heard),
        "size_mb": max(one.size for one in heard) / 2**20,
        "p50_ms": percentile(delays, 0.5),
        "p99_ms": percentile(delays, 0.99),
        "ended": [repr(e) for e in ended if not isinstance(e, asyncio.CancelledError)][:3],
    }


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        print(json.dumps(asyncio.run(read_all(json.loads(sys.argv[1])))))
