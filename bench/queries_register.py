"""A thousand queries registered in one call while readings come in, and how soon each answers with its history."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import httpx

from bench.foundations import drain
from bench.queries_server import ARROW, loaded, named, register, set_up, task_of, wait_past, warm_up, with_times
from bench.query_workload import Selection, expected_rows, selections
from bench.report import Report
from bench.server import Server

COUNT, RATE = 1_000, 20_000
SEED = 43
LOAD_S, HISTORY_S, MOST_CYCLES = 45.0, 6.0, 20
CHECKED = 50


def measure_register(report: Report) -> None:
    chosen = selections(COUNT, SEED)
    queries = named(chosen, RATE)
    with Server() as server:
        set_up(server, own_times=True)
        warm_up(server, own_times=True)
        report.say(f"register: {COUNT:,} queries in one call, at {RATE:,} tuples/s")
        task = with_times(task_of(server, RATE, LOAD_S, seed=3))
        with loaded(task):
            time.sleep(HISTORY_S)
            began = time.monotonic()
            register(server, queries)
            registered = time.monotonic()
            cycle = server.status()["cycle"]
            report.put("register_1000_s", registered - began)
            passed, answered = cycles_until_all(server, [name for name, _ in queries], cycle)
            report.put("register_1000_cycles", passed)
            report.put("register_1000_answers", answered)
            wrong = wrong_answers(server, chosen, task, range(0, COUNT, COUNT // CHECKED), cycle + (passed or 2))
            report.put("register_1000_answers_wrong", wrong)
        drain(server)


def cycles_until_all(server: Server, names: Sequence[str], cycle: int) -> tuple[int | None, int]:
    """How many cycles after one every query answers, and how many do: two, if all is well.

    An answer as of a cycle says what the query knew then, whenever it is asked.
    """
    missing = list(names)
    for passed in range(2, MOST_CYCLES + 1):
        wait_past(server, cycle + passed)
        with httpx.Client(base_url=server.url, timeout=60) as client:
            missing = [name for name in missing if not answers(client, name, cycle + passed)]
        if not missing:
            return passed, len(names)
    return None, len(names) - len(missing)


def answers(client: httpx.Client, name: str, cycle: int) -> bool:
    asked = {"as_of": cycle, "limit": 1}
    return client.get(f"/v1/queries/{name}/rows", params=asked, headers=ARROW).status_code == 200


def wrong_answers(
    server: Server,
    chosen: Sequence[Selection],
    task: dict[str, Any],
    numbers: Sequence[int],
    cycle: int | None,
    prefix: str = "q",
) -> int:
    """How many of these queries answer something else than the oracle."""
    return sum(not is_right(server, f"{prefix}{n}", chosen[n], task, cycle) for n in numbers)


def is_right(server: Server, name: str, chosen: Selection, task: dict[str, Any], cycle: int | None) -> bool:
    params = {} if cycle is None else {"as_of": cycle}
    reply = httpx.get(f"{server.url}/v1/queries/{name}/rows", params=params, timeout=120)
    if reply.status_code != 200:
        return False
    answer = reply.json()
    now_us = round(datetime.fromisoformat(answer["now"]).timestamp() * 1e6)
    wanted = expected_rows(chosen, task, now_us, chosen.window_us(task["rate"]))
    return sorted(tuple(row) for row in answer["rows"]) == wanted
