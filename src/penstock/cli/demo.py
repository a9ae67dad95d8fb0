"""`penstock demo`: a plant with sixty gas probes, live in the terminal, through nothing but the HTTP API."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from penstock.cli.demo_view import DemoScreen, DemoStatus, Tracks, own_questions, plain_line
from penstock.client import Change, Connection
from penstock.clock import WallClock, format_timestamp, parse_timestamp
from penstock.errors import PenstockError, error
from penstock.sensors.demo_plant import ALARMS, DEFINITIONS, LATEST, QUERIES, SILENT, TRACKS, insert_statement

REFRESH_S = 0.5
PLAIN_EVERY_S = 2.0
FIGURES_EVERY_S = 1.5
FIRST_READINGS_WITHIN_S = 90.0
READY_WITHIN_S = 120.0
STOP_WITHIN_S = 30.0


def demo(
    data: Annotated[
        Path | None, typer.Option(help="Folder to keep the demo's data in; without it, none is kept.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the demo's server; another one is taken if it is in use.")] = 8470,
    seconds: Annotated[float | None, typer.Option(help="Stop by itself after this long.")] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print a line every two seconds instead of a picture.")
    ] = False,
) -> None:
    """Show a plant with 60 simulated gas probes, live: latest readings, alarms, and the way that the gas takes."""
    progress = Console(stderr=True)
    screen = Console()
    plain = plain or not screen.is_terminal
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True) as unkept:
            _run(data or Path(unkept) / "data", free_port(port), seconds, plain, screen, progress)
    except KeyboardInterrupt:
        pass
    except PenstockError as problem:
        progress.print(problem.render(), markup=False, highlight=False)
        raise typer.Exit(1) from None
    progress.print("The demo has ended; nothing is left running.", style="dim")


def _run(folder: Path, port: int, seconds: float | None, plain: bool, screen: Console, progress: Console) -> None:
    progress.print("Starting a Penstock server with Spark inside; ready in 10 to 20 seconds.", highlight=False)
    with progress.status("starting") as status:
        with running_server(folder, port, lambda step: status.update(step)) as connection:
            status.update("describing the plant")
            set_up_plant(connection)
            status.update("waiting for the first readings")
            _wait_for_readings(connection)
            status.stop()
            watcher = Watcher(connection)
            watcher.start()
            try:
                (_watch_plain if plain else _watch)(connection, watcher, seconds, screen)
            except KeyboardInterrupt:
                pass
            finally:
                # Before the connection closes, and outside `except`, so that a second Ctrl-C finds us leaving already.
                progress.print("Stopping the server.", style="dim")


def set_up_plant(connection: Connection) -> None:
    """Describe the plant and register its queries; what a kept data folder has already stays."""
    connection.sql(DEFINITIONS)
    if not connection.sensors("probes"):
        connection.sql(insert_statement())
    connection.sql(QUERIES)


def _wait_for_readings(connection: Connection) -> None:
    """Until the first answer has rows, so that the picture does not begin empty."""
    deadline = time.monotonic() + FIRST_READINGS_WITHIN_S
    while time.monotonic() < deadline:
        try:
            if len(connection.invoke(LATEST)):
                return
        except PenstockError as problem:
            # The query is in the journal; the cycle that takes it in may still be under way.
            if problem.condition not in ("query_not_found", "not_ready"):
                raise
        time.sleep(0.2)


class Watcher:
    """Gathers what a view shows: answers by asking; alarms and the plume's ways as they are pushed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._clock = WallClock()
        self._delays_ms: deque[float] = deque(maxlen=50)
        self._pushed = 0
        self._tracks = Tracks()
        self._figures: dict[str, Any] = {}
        self._figures_at = float("-inf")

    def start(self) -> None:
        for query, take in ((ALARMS, self._take_alarms), (TRACKS, lambda change: self._tracks.add(change.rows))):
            # A daemon: it waits inside a request that ends with the server.
            threading.Thread(target=self._listen, args=(query, take), name=f"demo-{query}", daemon=True).start()

    def _listen(self, query: str, take: Callable[[Change], None]) -> None:
        try:
            # A connection of its own: the demo closes the other one while this one still waits.
            for change in Connection(self._connection.url).subscribe(query, retry_for_s=0.0):
                take(change)
        except PenstockError:
            return  # the server stops, or will be noticed by the next question

    def _take_alarms(self, change: Change) -> None:
        now_us = self._clock.now_us()
        first = self._pushed == 0
        self._pushed += len(change.rows)
        if change.rows and not first:  # the first event is the answer so far, not news
            newest_us = max(parse_timestamp(row["ts"]) for row in change.rows)
            self._delays_ms.append((now_us - newest_us) / 1000)

    def look(self) -> DemoStatus:
        """Ask for the answers and the server's figures."""
        latest, silent = self._connection.invoke(LATEST), self._connection.invoke(SILENT)
        alarms = self._connection.invoke(ALARMS)
        if time.monotonic() - self._figures_at > FIGURES_EVERY_S:
            self._figures, self._figures_at = self._connection.status(), time.monotonic()
        return DemoStatus(
            latest=latest.rows(),
            alarms=alarms.rows(),
            silent=silent.rows(),
            tracks=self._tracks.newest(),
            cycle=alarms.cycle,
            readings_per_s=self._figures.get("rows_per_s"),
            cycle_ms=self._figures.get("cycle_ms_p50"),
            pushed=self._pushed,
            push_delay_ms=median(self._delays_ms) if self._delays_ms else None,
        )


def _watch(connection: Connection, watcher: Watcher, seconds: float | None, screen: Console) -> None:
    with Live(console=screen, screen=True, auto_refresh=False) as live:
        for _ in _ticks(REFRESH_S, seconds):
            view = DemoScreen(connection.url, command_name(), screen.width, screen.height)
            live.update(view.draw(watcher.look()), refresh=True)


def _watch_plain(connection: Connection, watcher: Watcher, seconds: float | None, _: Console) -> None:
    print(f"The demo's server is at {connection.url}. Ask your own questions:", flush=True)
    for line in own_questions(command_name(), connection.url):
        print(f"  {line}", flush=True)
    for _tick in _ticks(PLAIN_EVERY_S, seconds):
        print(format_timestamp(WallClock().now_us())[11:19], plain_line(watcher.look()), sep="  ", flush=True)


def command_name() -> str:
    """How this user would call penstock again from the same folder."""
    called = Path(sys.argv[0])
    if called.name != "penstock":
        return "python -m penstock"
    found = shutil.which("penstock")
    return "penstock" if found and Path(found).samefile(called) else os.path.relpath(called)


def _ticks(every_s: float, seconds: float | None) -> Iterator[None]:
    """One tick at once, then one every so often, until the time is over."""
    began = time.monotonic()
    while True:
        tick = time.monotonic()
        yield
        if seconds is not None and time.monotonic() - began >= seconds:
            return
        time.sleep(max(0.0, tick + every_s - time.monotonic()))


@contextmanager
def running_server(data: Path, port: int, progress: Callable[[str], None]) -> Iterator[Connection]:
    """`penstock serve` on a data folder, ready; on the way out it is stopped and waited for, whatever happened."""
    with tempfile.TemporaryFile() as printed:
        # A session of its own: Ctrl-C reaches the demo alone, which then stops the server in order.
        server = subprocess.Popen(
            [sys.executable, "-m", "penstock", "serve", "--data", str(data), "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        try:
            with Connection(f"http://127.0.0.1:{port}") as connection:
                _wait_until_ready(server, connection, progress)
                yield connection
        except PenstockError as problem:
            if server.poll() is None:
                raise
            printed.seek(0)
            tail = printed.read().decode(errors="replace").strip().splitlines()[-12:]
            raise error("engine_failed", detail="the server ended:\n  " + "\n  ".join(tail)) from problem
        finally:
            _stop(server)


def _end_with_parent() -> None:
    """If the demo is killed outright, its server goes too (Linux; elsewhere it stays)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _wait_until_ready(server: subprocess.Popen[bytes], connection: Connection, progress: Callable[[str], None]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    shown = ""
    while True:
        if server.poll() is not None:
            raise error("not_ready", detail=f"the server ended with code {server.returncode}")
        try:
            health = connection.health()
        except PenstockError:
            health = {"ready": False, "reason": "starting"}  # not listening yet
        if health["ready"]:
            return
        if health["reason"] != shown:
            shown = health["reason"]
            progress(shown)
        if time.monotonic() > deadline:
            raise error("not_ready", detail=f"the server was not ready after {READY_WITHIN_S:.0f} s: {shown}")
        time.sleep(0.2)


def _stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.terminate()
    try:
        server.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def free_port(wanted: int) -> int:
    """The wanted port if it is free, else one that the system gives."""
    for port in (wanted, 0):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)) as listener:
            return int(listener.getsockname()[1])
    raise error("not_ready", detail="there is no free port on this machine")
