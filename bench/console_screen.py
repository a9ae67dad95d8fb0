"""From push to screen: readings come at a rate, the console is open on three pages, and one of them tells when it shows a marker.

A delay is from the moment a push of one reading is sent until its number is in the page of the query that selects it. The page notes
that itself, as its document changes, by the clock that the sender reads, too.
"""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np

from bench.foundations import drain, keeps_up
from bench.generator import percentile
from bench.queries_selections import backlog_cycles
from bench.queries_server import cycle_figures, cycles_after, loaded, memory_mb, register, set_up, task_of, warm_up
from bench.report import Report
from bench.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Page

RATE = 60_000
FIRST_MARKER = 7_000_000_000
"""Above the generator's own; the pages look for numbers of this size."""
QUERY = "on_screen"
# Everything in its window fits on the first page of its table.
SQL = f"SELECT sensor_id, marker, ts FROM readings WHERE marker >= {FIRST_MARKER} BEGIN (NOW - 5 SECONDS) END (NOW)"
PAGES = {"overview": "", "query": f"queries/{QUERY}", "system": "system"}
MARKER_EVERY_S = 0.25
LAST_ONES_S = 5.0
SETTLED_S = 2.0
READY_WITHIN_MS = 120_000
WATCH = """
() => {
  window.firstSeen = {};
  window.timesChanged = 0;
  const look = () => {
    window.timesChanged += 1;
    for (const cell of document.querySelectorAll("td")) {
      const text = cell.textContent.replace(/[^0-9]/g, "");
      if (/^7[0-9]{9}$/.test(text) && !(text in window.firstSeen)) window.firstSeen[text] = Date.now();
    }
  };
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
}
"""


@dataclass
class Markers:
    """Pushes one marker after the other until it is stopped, out of step with whatever else repeats."""

    url: str
    sent_ms: dict[int, float] = field(default_factory=dict)
    """By marker, when its push was begun, as the clock of the machine had it."""
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Markers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        rng = np.random.default_rng(81)
        number = FIRST_MARKER
        with httpx.Client(timeout=60) as client:
            while not self._stop.wait(MARKER_EVERY_S * rng.uniform(0.5, 1.5)):
                number += 1
                row = {"sensor_id": 1, "a": 0, "b": 0, "c": 0, "d": 0, "marker": number}
                at = time.time() * 1000
                try:
                    client.post(f"{self.url}/v1/tables/readings/readings", json=[row]).raise_for_status()
                    self.sent_ms[number] = at
                except httpx.HTTPError as failure:
                    self.failures.append(repr(failure))


def measure_screen(report: Report, seconds: float, rate: int) -> None:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        report.say("[bold red]screen:[/bold red] left out, there is no chromium here (apt install chromium)")
        report.put("push_to_screen_p50_ms", None)
        return
    with Server() as server:
        set_up(server)
        register(server, [(QUERY, SQL)])
        warm_up(server)
        with three_pages(server.url, program) as (pages, problems):
            report.say(f"screen: {rate:,} tuples/s for {seconds:.0f} s, {len(pages)} pages open")
            found = run(server, pages, rate, seconds)
        put(report, found, problems, rate)


@contextmanager
def three_pages(url: str, program: str) -> Iterator[tuple[dict[str, Page], list[str]]]:
    """The pages by name, each with a watch over its document, and everything that the browser complained about."""
    from playwright.sync_api import sync_playwright

    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(READY_WITHIN_MS)
        pages: dict[str, Page] = {}
        for name, path in PAGES.items():
            page = context.new_page()
            page.on("pageerror", lambda error, name=name: problems.append(f"{name}: {error}"))
            page.goto(f"{url}/console/{path}")
            # Until the console is mounted, a page that waits for it is there instead.
            page.locator(".frame:not([inert]) h1").wait_for()
            page.evaluate(WATCH)
            pages[name] = page
        pages["query"].bring_to_front()
        yield pages, problems
        browser.close()


def run(server: Server, pages: dict[str, Page], rate: int, seconds: float) -> dict[str, Any]:
    """Hold the rate while markers are pushed and watched."""
    shown = pages["query"]
    before = server.status()["cycle"]
    cpu, began = server.cpu_seconds(), time.monotonic()
    with loaded(task_of(server, rate, seconds, seed=81)) as found:
        shown.wait_for_timeout(SETTLED_S * 1000)  # until the generator runs; it ends as much later
        with Markers(server.url) as markers:
            while time.monotonic() < began + max(SETTLED_S + 1, seconds):
                shown.wait_for_timeout(200)
    cores = (server.cpu_seconds() - cpu) / (time.monotonic() - began)
    deadline = time.monotonic() + LAST_ONES_S
    while len(seen := first_seen(shown)) < len(markers.sent_ms) and time.monotonic() < deadline:
        shown.wait_for_timeout(200)
    changed = {name: int(page.evaluate("window.timesChanged")) for name, page in pages.items()}
    figures = cycle_figures(cycles_after(server, before))
    memory = memory_mb(server)
    drain(server)
    delays = delays_ms(markers.sent_ms, seen)
    refused = [*found.get("failures", []), *markers.failures]
    return {
        **found,
        **figures,
        "delays": delays,
        "changed": changed,
        "cores": cores,
        "memory": memory,
        "refused": refused,
    }


def first_seen(page: Page) -> dict[int, float]:
    return {int(number): at for number, at in page.evaluate("window.firstSeen").items()}


def delays_ms(sent: Mapping[int, float], seen: Mapping[int, float]) -> list[float]:
    """From least to greatest; of a marker that never came it is without end, so that it counts."""
    return sorted(seen[number] - at if number in seen else math.inf for number, at in sent.items())


def finite(delays: Sequence[float], share: float) -> float | None:
    """A percentile; None where it has no end, or nothing was measured."""
    value = percentile(list(delays), share)
    return value if math.isfinite(value) else None


def put(report: Report, found: dict[str, Any], problems: Sequence[str], rate: int) -> None:
    delays = found["delays"]
    report.put("push_to_screen_p50_ms", finite(delays, 0.5), int(found.get("rows", 0)))
    report.put("push_to_screen_p99_ms", finite(delays, 0.99))
    report.put("screen_markers", len(delays))
    report.put("screen_markers_missed", sum(map(math.isinf, delays)))
    if "rate" in found:
        report.put("screen_tuples_per_s", found["rate"])
        report.put("screen_keeps_up", float(keeps_up(found, rate)))
        report.put("screen_backlog_cycles", backlog_cycles(found))
        report.put("screen_push_to_visible_p50_ms", found["p50_ms"])
        report.put("screen_push_to_visible_p99_ms", found["p99_ms"])
    for key in ("cycle_p50_ms", "cycle_p99_ms"):
        report.put(f"screen_{key}", found[key])
    report.put("screen_cpu_cores", found["cores"])
    report.put("screen_memory_mb", found["memory"])
    for name, times in found["changed"].items():
        report.put(f"screen_changes_{name}", times)
    report.put("screen_errors", len(problems) + len(found["refused"]))
    for text in (*problems[:3], *found["refused"][:3]):
        report.say(f"[bold red]screen:[/bold red] {text}")
