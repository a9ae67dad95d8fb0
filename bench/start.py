"""How long a server takes to start: `python -m bench.start`, on an empty folder and on one with history and queries.

It needs nothing of the sources but a server. A start lasts from the process's beginning until `/v1/health` says ready; the first
answer is that of an aggregate over the history. The console is open when a browser, which runs already and asks for it at that
moment, shows its first page. The server before it was stopped in order. Results: bench/results/start.{json,md}.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from bench.queries_server import register
from bench.report import Report
from bench.server import Server
from bench.statistics_aggregates import push_history, set_up
from bench.statistics_workload import aggregates

QUERIES, SEED = 500, 56
TIMES = 3
ASKED = "hourly"
HOURLY = "SELECT site AS k, COUNT(*) AS v FROM readings GROUP BY site BEGIN (NOW - 1 HOUR) END (NOW)"
MOST_S = 60.0


def measure_start(report: Report, queries: int, times: int) -> None:
    """The median of some starts in each folder, in turns."""
    with tempfile.TemporaryDirectory(prefix="penstock-start-") as temporary, browser() as opened_s:
        folder = Path(temporary) / "history"
        report.say(f"start: an hour of history and {queries:,} queries")
        fill(folder, queries)
        empty, full, answered, opened = [], [], [], []
        for _ in range(times):
            with Server() as server:
                empty.append(server.ready_s)
                opened.append(opened_s(server.url))
            with Server(data=folder) as server:
                full.append(server.ready_s)
                answered.append(server.ready_s + first_answer_s(server, ASKED))
            console = "" if opened[-1] is None else f", the console {opened[-1]:.2f} s later"
            report.say(f"start: {empty[-1]:.2f} s empty{console}; {full[-1]:.2f} s, answers after {answered[-1]:.2f} s")
    report.put_runs("start_s_empty", empty)
    report.put_runs("start_s_history", full)
    report.put_runs("start_first_answer_s_history", answered)
    report.put_runs("console_open_s", opened)


@contextmanager
def browser() -> Iterator[Callable[[str], float | None]]:
    """Seconds until a browser shows the console of a server; None without a browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        yield lambda url: None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])

        def opened_s(url: str) -> float:
            page = chromium.new_page()
            began = time.monotonic()
            page.goto(f"{url}/console/")
            # Until the console is mounted, a page that waits for it is there instead.
            page.locator(".frame:not([inert]) h1").wait_for(timeout=MOST_S * 1000)
            took_s = time.monotonic() - began
            page.close()
            return took_s

        yield opened_s
        chromium.close()


def fill(folder: Path, queries: int) -> None:
    """Half of the queries are selections, the others aggregates over windows."""
    with Server(data=folder) as server:
        set_up(server)
        asked = [selection(number) for number in range(queries // 2)]
        asked += [chosen.sql() for chosen in aggregates(queries - len(asked), SEED)]
        register(server, [(ASKED, HOURLY), *((f"q{number}", sql) for number, sql in enumerate(asked))])
        push_history(server, int(time.time()) * 1_000_000)
        first_answer_s(server, ASKED)


def selection(number: int) -> str:
    """Other bounds for each number: an eighth of the readings or less."""
    where = f"a >= {number % 224} AND a < {number % 224 + 32} AND d < {number % 256}"
    return f"SELECT sensor_id, b, ts FROM readings WHERE {where} BEGIN (NOW - {1 + number % 60} SECONDS) END (NOW)"


def first_answer_s(server: Server, name: str) -> float:
    """Seconds until a query answers with rows."""
    began = time.monotonic()
    while time.monotonic() - began < MOST_S:
        reply = httpx.get(f"{server.url}/v1/queries/{name}/rows", headers={"Accept": "application/json"}, timeout=60)
        if reply.status_code == 200 and reply.json()["rows"]:
            return time.monotonic() - began
        time.sleep(0.02)
    raise RuntimeError(f"{name} had no answer within a minute: {reply.text[:500]}\n{server.log_tail()}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.start", description=__doc__)
    parser.add_argument("--queries", type=int, default=QUERIES, help="queries of the folder with history")
    parser.add_argument("--times", type=int, default=TIMES, help="starts in each folder")
    options = parser.parse_args()
    report = Report("start", f"{options.times} starts, {options.queries} queries")
    measure_start(report, options.queries, options.times)
    report.show()


if __name__ == "__main__":
    main()
