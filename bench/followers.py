"""Subscribers of many queries, in a process of their own: `python -m bench.followers JSON`.

Each query has one subscriber on a connection of its own. The process prints `ready` when all are connected, reads until its
standard input ends, and then prints one JSON object. It only counts events: to decode them would take the cores of the server.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

CONNECT_S = 300.0
AT_ONCE = 50
"""Connections that are opened at a time: a server queues only so many."""


@dataclass
class Heard:
    """What one subscriber has heard so far, by the lines that begin its events."""

    events: int = 0
    errors: int = 0
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    _rest: bytes = b""

    def take(self, data: bytes) -> None:
        """More of the stream; a line may lie in two pieces of it."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line == b"event: rows":
                self.events += 1
            elif line.startswith(b"retry:"):
                self.connected.set()
            elif line == b"event: error" or (line.startswith(b"HTTP/1.1 ") and not line.startswith(b"HTTP/1.1 200")):
                self.errors += 1
                self.connected.set()  # it never will be


class Subscriber(asyncio.Protocol):
    """One connection: asks for the events of a query, and takes what comes."""

    def __init__(self, name: str, heard: Heard) -> None:
        self._name = name
        self._heard = heard

    def connection_made(self, transport: Any) -> None:
        transport.write(f"GET /v1/queries/{self._name}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        self._heard.take(data)

    def connection_lost(self, _: Exception | None) -> None:
        self._heard.errors += 1


async def follow_all(port: int, names: Sequence[str]) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    heard = [Heard() for _ in names]
    for first in range(0, len(names), AT_ONCE):
        some = list(zip(names, heard, strict=True))[first : first + AT_ONCE]
        for name, one in some:
            await loop.create_connection(partial(Subscriber, name, one), "127.0.0.1", port)
        await asyncio.wait_for(asyncio.gather(*(one.connected.wait() for _, one in some)), CONNECT_S)
    # The first events are answers to the subscriptions, not of cycles.
    before = [one.events for one in heard]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    counts = [one.events - known for one, known in zip(heard, before, strict=True)]
    return {"events": sum(counts), "silent": counts.count(0), "errors": sum(one.errors for one in heard)}


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(follow_all(task["port"], task["names"]))))
