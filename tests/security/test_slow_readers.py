"""Two hundred subscribers of one query, two of whom do not read: the others are not held back, memory is bounded."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from penstock.settings import Settings
from tests.security.conftest import World
from tests.server.live import Live

SUBSCRIBERS = 200
CYCLES = 8
ROWS = 20
TEXT = "x" * 2000
PATH = "/v1/queries/wide/events"
UPGRADE = (
    "GET /v1/queries/wide/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
# Uvicorn stops asking for more when so much waits; a frame may come on top of it.
HIGH_WATER_BYTES = 64 << 10
FRAME_BYTES = ROWS * (len(TEXT) + 200)


async def read_cycles(host: str, port: int, seen: list[int], last: list[int]) -> None:
    """One reader that keeps up, until it has seen the last cycle."""
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
    writer.write(f"GET {PATH} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    cycle = 0
    try:
        seen.append(0)
        while not last or seen[-1] < last[0]:
            line = await reader.readline()
            assert line, "the server hung up"
            if line.startswith(b"id: "):
                cycle = int(line[4:])
            elif line.startswith(b"event: rows"):  # pings have a cycle, too
                seen.append(cycle)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def deaf(host: str, port: int, request: str) -> socket.socket:
    """A reader that asks and then does not read."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.connect((host, port))
    found.sendall(request.encode())
    return found


def test_a_slow_reader_holds_back_nobody_and_costs_no_memory(open_world: World) -> None:
    world, db = open_world, open_world.db
    db.execute(f"UPDATE probes SET place = '{TEXT}' WHERE id = 1")
    db.execute("CREATE QUERY wide AS SELECT place, value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    world.pipe.engine.drain()
    live = Live(db, Settings(data=str(world.pipe.folder)))  # type: ignore[arg-type]
    live.send_buffer_bytes = 8192
    live.start()
    try:
        asyncio.run(_follow(world, live))
    finally:
        live.stop()


async def _follow(world: World, live: Live) -> None:
    host, port = urlsplit(live.url).hostname or "", urlsplit(live.url).port or 0
    context: Any = live.app.state.context
    slow = [deaf(host, port, f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), deaf(host, port, UPGRADE)]
    last: list[int] = []
    seen: list[list[int]] = [[] for _ in range(SUBSCRIBERS - len(slow))]
    readers = [asyncio.ensure_future(read_cycles(host, port, one, last)) for one in seen]
    while context.counters.subscribers < SUBSCRIBERS:
        await asyncio.sleep(0.01)
    waiting = []
    for number in range(CYCLES):
        await asyncio.to_thread(world.pipe.push, *[float(number)] * ROWS)
        await asyncio.to_thread(world.pipe.engine.cycle)
        waiting.append(max(live.unsent_bytes()))
        # Beyond `selections_budget` one event would have the rows of several cycles.
        while any(one[-1] < world.db.standing.store.cycle for one in seen):
            await asyncio.sleep(0.01)
    last.append(world.db.standing.store.cycle)
    await asyncio.gather(*readers)
    # Everybody who reads has heard of every cycle, in order, though two never read a byte.
    for one in seen:
        assert one == sorted(set(one)) and one[-1] == last[0]
        assert len(one) - 1 >= CYCLES, one
    while max(live.unsent_bytes()) == 0:
        await asyncio.sleep(0.01)
    # A deaf web socket answers no pings, so on a slow machine the server may have hung up on it by now.
    unsent = sorted(live.unsent_bytes())
    # All frames do not fit into what may wait: those who do not read were not sent them.
    assert CYCLES * FRAME_BYTES > 2 * (HIGH_WATER_BYTES + FRAME_BYTES)
    assert max(unsent + waiting) <= HIGH_WATER_BYTES + 2 * FRAME_BYTES, unsent[-5:]
    # The deaf one begins to read, and has missed nothing.
    assert await asyncio.to_thread(_catch_up, slow[0], last[0]) == seen[0][1:]
    for one in slow:
        one.close()


def _catch_up(deaf_one: socket.socket, last: int) -> list[int]:
    deaf_one.settimeout(60)
    cycles: list[int] = []
    cycle = 0
    with deaf_one.makefile("rb") as lines:
        for line in lines:
            if line.startswith(b"id: "):
                cycle = int(line[4:])
            elif line.startswith(b"event: rows"):
                cycles.append(cycle)
                if cycle >= last:
                    break
    return cycles
