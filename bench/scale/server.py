"""What the parts of `bench.scale` ask of a server: history in, answers once windows are filled, memory of cells."""

from __future__ import annotations

import time

import httpx

from bench.scale.workload import Minutely
from bench.server import Server
from bench.statistics_aggregates import push

PUSH_ROWS = 300_000
MOST_S = 900.0


def push_history(server: Server, data: Minutely, rows: int) -> float:
    """Push the first so many readings as fast as they are acknowledged; seconds until all are in the answers."""
    began = time.monotonic()
    for first in range(0, rows, PUSH_ROWS):
        push(server, data.readings(first, min(rows, first + PUSH_ROWS)), "m")
    settle(server)
    return time.monotonic() - began


def settle(server: Server) -> None:
    """Wait until no reading waits in the log."""
    deadline = time.monotonic() + MOST_S
    while server.status()["rows_behind"] > 0:
        if time.monotonic() > deadline:
            raise RuntimeError(f"readings still wait after {MOST_S:.0f} s\n{server.log_tail()}")
        time.sleep(0.1)


def answer_when_filled(server: Server, name: str) -> float:
    """Ask until there is an answer; the longest time in seconds that a request took."""
    longest_s, deadline = 0.0, time.monotonic() + MOST_S
    with httpx.Client(base_url=server.url, timeout=MOST_S) as client:
        while time.monotonic() < deadline:
            began = time.monotonic()
            reply = client.get(f"/v1/queries/{name}/rows")
            longest_s = max(longest_s, time.monotonic() - began)
            if reply.status_code == 200:
                return longest_s
            if reply.json()["error"]["condition"] != "not_ready":  # it is not FILLING, it failed
                break
            time.sleep(0.05)
    raise RuntimeError(f"{name} has no answer: {reply.text[:1000]}\n{server.log_tail()}")


def cells_mb(server: Server) -> float:
    """Memory of all queries, of which each has its share of what it shares."""
    rows = server.sql("SELECT SUM(memory) FROM penstock.queries")["rows"]
    return float(rows[0][0] or 0) / 1e6
