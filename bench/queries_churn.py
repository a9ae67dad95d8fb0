"""Queries come and go for ten minutes while readings flow: memory stays where it is, nobody errs, answers are right."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
import numpy as np

from bench.foundations import drain
from bench.queries_register import is_right
from bench.queries_server import ARROW, loaded, memory_mb, named, register, set_up, task_of, warm_up, with_times
from bench.query_workload import Selection, selection, selections
from bench.report import Report
from bench.server import MemoryWatch, Server

STANDING, RATE, A_SECOND = 1_000, 20_000, 10
SEED = 45
LOOKED_AT = 0.3
"""Share of the run after which memory is looked at: minute 3 of 10."""
SETTLED_S = 2.0
CHECKED, NEWEST = 100, 5


@dataclass
class Churn:
    """Registers and drops so many queries a second, one by one, and invokes one now and then, in two threads."""

    url: str
    standing: dict[str, Selection]
    registered: int = 0
    dropped: int = 0
    invoked: int = 0
    late_s: float = 0.0
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.order = list(self.standing)
        self._born: dict[str, float] = {}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._register, self._drop)]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _turns(self) -> Iterator[int]:
        """Evenly spaced; who is late catches up, and it is said by how much."""
        began = time.monotonic()
        for turn in count():
            wait_s = began + turn / A_SECOND - time.monotonic()
            self.late_s = max(self.late_s, -wait_s)
            if self._stop.wait(max(0.0, wait_s)):
                return
            yield turn

    def _register(self) -> None:
        rng = np.random.default_rng([SEED, 1])
        with httpx.Client(base_url=self.url, timeout=60) as client:
            for turn in self._turns():
                name, chosen = f"n{turn}", selection(rng)
                body = {"queries": [{"name": name, "sql": chosen.sql(RATE)}]}
                if self._call(client, "POST", "/v1/queries", json=body):
                    self.registered += 1
                    self.standing[name] = chosen
                    self._born[name] = time.monotonic()
                    self.order.append(name)

    def _drop(self) -> None:
        """Any query but the newest; the newest are asked only after a while: their answer may wait for a cycle."""
        rng = np.random.default_rng([SEED, 2])
        with httpx.Client(base_url=self.url, timeout=60) as client:
            for turn in self._turns():
                name = self.order.pop(int(rng.integers(len(self.order) - 1)))
                del self.standing[name]
                self.dropped += self._call(client, "DELETE", f"/v1/queries/{name}")
                asked = self.order[int(rng.integers(len(self.order)))]
                if turn % A_SECOND == 0 and time.monotonic() - self._born.get(asked, 0.0) > SETTLED_S:
                    self.invoked += self._call(client, "GET", f"/v1/queries/{asked}/rows", headers=ARROW)

    def _call(self, client: httpx.Client, method: str, path: str, **more: Any) -> bool:
        try:
            reply = client.request(method, path, **more)
        except httpx.HTTPError as failure:
            self.errors.append(f"{method} {path}: {failure!r}")
            return False
        if reply.status_code >= 400:
            self.errors.append(f"{method} {path}: {reply.text[:300]}")
        return reply.status_code < 400


def measure_churn(report: Report, minutes: float) -> None:
    if not minutes:
        return
    seconds = minutes * 60
    with Server() as server:
        set_up(server, own_times=True)
        chosen = selections(STANDING, SEED)
        queries = named(chosen, RATE)
        register(server, queries)
        warm_up(server, own_times=True)
        churn = Churn(server.url, dict(zip((name for name, _ in queries), chosen, strict=True)))
        report.say(f"churn: {minutes:.0f} minutes, {STANDING:,} queries, {A_SECOND} come and {A_SECOND} go a second")
        task = with_times(task_of(server, RATE, seconds, seed=6))
        found, watch = run(server, task, churn)
        drain(server)
        put(report, server, task, churn, found, watch)


def run(server: Server, task: dict[str, Any], churn: Churn) -> tuple[dict[str, Any], MemoryWatch]:
    with MemoryWatch(server, lambda: memory_mb(server), every_s=2.0) as watch:
        with loaded(task) as found:
            churn.begin()
            # The load ends by itself; registrations end shortly before, so that the newest have answers to compare.
            time.sleep(max(0.0, task["seconds"] - SETTLED_S))
            churn.end()
    return found, watch


def put(
    report: Report, server: Server, task: dict[str, Any], churn: Churn, found: dict[str, Any], watch: MemoryWatch
) -> None:
    report.put("churn_slope_mb_per_min", watch.slope_mb_per_min(LOOKED_AT * task["seconds"]), found.get("rows", 0))
    report.put("churn_memory_mb_end", watch.samples[-1][1] if watch.samples else None)
    report.put("churn_registered_per_s", churn.registered / task["seconds"])
    report.put("churn_dropped_per_s", churn.dropped / task["seconds"])
    report.put("churn_invoked", churn.invoked)
    report.put("churn_late_s", churn.late_s)
    told = server.failed_queries() + server.log_text().count("Traceback")
    report.put("churn_errors", len(churn.errors) + len(found["failures"]) + told)
    report.put("churn_push_to_visible_p99_ms", found.get("p99_ms"))
    asked = sample_of(churn)
    wrong = [name for name in asked if not is_right(server, name, churn.standing[name], task, None)]
    report.put("churn_answers_checked", len(asked))
    report.put("churn_answers_wrong", len(wrong))
    report.plot_line("churn", [t / 60 for t, _ in watch.samples], [m for _, m in watch.samples])
    for text in (*churn.errors[:3], *found["failures"][:3]):
        report.say(f"[bold red]churn:[/bold red] {text}")
    if wrong:
        report.say(f"[bold red]churn: wrong answers:[/bold red] {wrong[:10]}")


def sample_of(churn: Churn) -> list[str]:
    """Some of the queries that stand at the end, the newest among them."""
    names = [name for name in churn.order if name in churn.standing]
    chosen = np.random.default_rng([SEED, 3]).permutation(len(names))[:CHECKED]
    return sorted({*(names[i] for i in chosen), *names[-NEWEST:]})
