"""Queries come and go for ten minutes while readings flow: memory stays where it is, nobody errs, answers are right."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
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
CHECKED = 100


@dataclass
class Churn:
    """Registers and drops so many queries a second, one by one, and invokes one now and then. Runs in a thread."""

    url: str
    standing: dict[str, Selection]
    registered: int = 0
    dropped: int = 0
    invoked: int = 0
    errors: list[str] = field(default_factory=list)
    late_s: float = 0.0

    def run(self, stop: threading.Event) -> None:
        rng = np.random.default_rng([SEED, 1])
        order = list(self.standing)
        born: dict[str, float] = {}
        began, turn = time.monotonic(), 0
        with httpx.Client(base_url=self.url, timeout=60) as client:
            while not stop.is_set():
                due = began + turn / A_SECOND
                self.late_s = max(self.late_s, time.monotonic() - due)
                if stop.wait(max(0.0, due - time.monotonic())):
                    return
                name = f"n{turn}"
                if self._register(client, name, selection(rng)):
                    order.append(name)
                    born[name] = time.monotonic()
                self._drop(client, order.pop(int(rng.integers(len(order) - 1))))
                if turn % A_SECOND == 0:
                    asked = order[int(rng.integers(len(order)))]
                    if time.monotonic() - born.get(asked, 0.0) > SETTLED_S:
                        self._invoke(client, asked)
                turn += 1

    def _register(self, client: httpx.Client, name: str, chosen: Selection) -> bool:
        body = {"queries": [{"name": name, "sql": chosen.sql(RATE)}]}
        done = self._call(client, "POST", "/v1/queries", json=body)
        if done:
            self.registered += 1
            self.standing[name] = chosen
        return done

    def _drop(self, client: httpx.Client, name: str) -> None:
        del self.standing[name]
        self.dropped += self._call(client, "DELETE", f"/v1/queries/{name}")

    def _invoke(self, client: httpx.Client, name: str) -> None:
        self.invoked += self._call(client, "GET", f"/v1/queries/{name}/rows", headers=ARROW)

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
        found, real = run(server, task, churn)
        drain(server)
        put(report, server, task, churn, found, real)


def run(server: Server, task: dict[str, Any], churn: Churn) -> tuple[dict[str, Any], MemoryWatch]:
    stop = threading.Event()
    churning = threading.Thread(target=churn.run, args=(stop,), daemon=True)
    with MemoryWatch(server, lambda: memory_mb(server), every_s=2.0) as watch:
        with loaded(task) as found:
            churning.start()
            # The load ends by itself; registrations end shortly before, so that the newest have answers to compare.
            stop.wait(max(0.0, task["seconds"] - SETTLED_S))
            stop.set()
            churning.join()
    return found, watch


def put(
    report: Report, server: Server, task: dict[str, Any], churn: Churn, found: dict[str, Any], watch: MemoryWatch
) -> None:
    report.put("churn_slope_mb_per_min", watch.slope_mb_per_min(LOOKED_AT * task["seconds"]), found.get("rows", 0))
    report.put("churn_memory_mb_end", watch.samples[-1][1] if watch.samples else None)
    report.put("churn_registered", churn.registered)
    report.put("churn_dropped", churn.dropped)
    report.put("churn_invoked", churn.invoked)
    report.put("churn_late_s", churn.late_s)
    failed = server.failed_queries()
    report.put("churn_errors", len(churn.errors) + len(found["failures"]) + failed)
    report.put("churn_push_to_visible_p99_ms", found.get("p99_ms"))
    rng = np.random.default_rng([SEED, 2])
    names = sorted(churn.standing)
    sample = [names[i] for i in rng.permutation(len(names))[:CHECKED]]
    newest = sorted(names, key=lambda n: int(n[1:]) if n.startswith("n") else -1)[-5:]
    asked = sorted({*sample, *newest})
    wrong = [name for name in asked if not is_right(server, name, churn.standing[name], task, None)]
    report.put("churn_answers_checked", len(asked))
    report.put("churn_answers_wrong", len(wrong))
    report.plot_line("churn", [t / 60 for t, _ in watch.samples], [m for _, m in watch.samples])
    for text in (*churn.errors[:3], *found["failures"][:3]):
        report.say(f"[bold red]churn:[/bold red] {text}")
    if wrong:
        report.say(f"[bold red]churn: wrong answers:[/bold red] {wrong[:10]}")
