"""`python -m apps.hazmat`: a server, four detectors around a belt, and a page that says what is in the boxes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from apps.hazmat.background import read_background, write_background
from apps.hazmat.belt import SIDES
from apps.hazmat.decision import RULES
from apps.hazmat.follow import Boxes, Follower, describe
from apps.hazmat.hypotheses import build_hypotheses
from apps.hazmat.reading import suro
from apps.hazmat.spectrum import Spectrum
from apps.hazmat.split import BACKGROUND
from apps.hazmat.statements import QUERIES, Site, create_sink, functions, insert_actions, insert_detectors, tables
from penstock.cli.demo import free_port, running_server
from penstock.client import Answer, Connection
from penstock.errors import PenstockError

REFRESH_S = 0.5
PATIENCE_S = 120.0
SEED = 1
SIMULATED_S = 1000.0
"""Length of the simulated background run of each detector."""
app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def watch(
    context: typer.Context,
    server: Annotated[str, typer.Option(help="URL of a running server; without it one is started.")] = "",
    background: Annotated[Path | None, typer.Option(help="Background run; without it one is simulated.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop by itself after this long.")] = None,
    port: Annotated[int, typer.Option(help="Port of the page.")] = 8490,
    webhook: Annotated[str, typer.Option(help="URL that alarms are sent to; without it they go to files.")] = "",
    plain: Annotated[bool, typer.Option("--plain", help="Print a line per decision instead of a page.")] = False,
) -> None:
    """Decide about simulated boxes from real gamma counts, and show the decisions. Not a certified instrument."""
    if context.invoked_subcommand is not None:
        return
    progress = Console(stderr=True)
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-hazmat-", ignore_cleanup_errors=True) as folder:
            run = background or simulate_background(Path(folder) / "background.json", SEED)
            read_background(run)  # refused before anything starts
            site = Site(str(run.resolve()), SEED, webhook=webhook)
            with connected(server, Path(folder) / "data", progress) as connection:
                set_up(connection, site)
                follower = Follower(connection)
                follower.start()
                if plain:
                    print_decisions(follower, seconds)
                else:
                    show_page(follower.boxes, run, seconds, port)
    except KeyboardInterrupt:
        pass
    except (PenstockError, ValueError) as problem:
        text = problem.render() if isinstance(problem, PenstockError) else str(problem)
        progress.print(text, markup=False, highlight=False)
        raise typer.Exit(1) from None


@app.command("background")
def measure_background(
    server: Annotated[str, typer.Option(help="URL of the server.")] = "http://127.0.0.1:8470",
    minutes: Annotated[int, typer.Option(min=10, help="How many of the last minutes were without a box.")] = 20,
    target: Annotated[Path, typer.Option(help="Where the background run goes.")] = Path("background.json"),
) -> None:
    """Write the background of each detector, from what they measured in the last minutes, while no box was there."""
    try:
        with Connection(server) as connection:
            window = f"BEGIN (NOW - {minutes} MINUTES) END (NOW)"
            rows = connection.sql(f"SELECT detector, a0, a1, a2, live_s, counts FROM detectors {window}").rows()
        write_background(summed_runs(rows), target)
        read_background(target)
    except (PenstockError, ValueError) as problem:
        target.unlink(missing_ok=True)
        text = problem.render() if isinstance(problem, PenstockError) else str(problem)
        Console(stderr=True).print(text, markup=False, highlight=False)
        raise typer.Exit(1) from None
    print(f"the background run is {target}")


def summed_runs(rows: list[dict[str, Any]]) -> list[Spectrum]:
    """The bursts of each detector as one run."""
    found: dict[str, Spectrum] = {}
    for row in rows:
        counts = np.array(row["counts"], dtype=np.int64)
        before = found.get(row["detector"])
        if before is None:
            calibration = (row["a0"], row["a1"], row["a2"])
            found[row["detector"]] = Spectrum(row["detector"], counts, row["live_s"], calibration, row["detector"])
        else:
            live_s = before.live_s + row["live_s"]
            found[row["detector"]] = dataclasses.replace(before, counts=before.counts + counts, live_s=live_s)
    if not found:
        raise ValueError("the detectors have sent nothing in these minutes")
    return list(found.values())


def simulate_background(path: Path, seed: int) -> Path:
    """A background run as four detectors without a box would measure it: counts of the long background run, used once."""
    run = suro()[BACKGROUND]
    dice = np.random.default_rng([seed, 2])
    share = SIMULATED_S / run.live_s
    taken = dice.multinomial(run.counts, [share] * len(SIDES) + [1 - share * len(SIDES)])
    runs = [Spectrum(side, taken[:, i], SIMULATED_S, run.calibration, side) for i, side in enumerate(SIDES)]
    write_background(runs, path)
    return path


@contextlib.contextmanager
def connected(server: str, data: Path, progress: Console) -> Iterator[Connection]:
    """The server at a URL, or one that is started on a data folder and stopped at the end."""
    if server:
        with Connection(server) as connection:
            yield connection
        return
    # Workers import the functions of this application from here.
    root = str(Path(__file__).resolve().parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    progress.print("Starting a Penstock server with Spark inside; ready in 10 to 20 seconds.", highlight=False)
    with running_server(data, free_port(8491), lambda _: None) as connection:
        yield connection


def set_up(connection: Connection, site: Site, simulated: bool = True) -> None:
    """Tables, functions, queries and the sink of alarms; what is there already stays. Detectors that are not simulated wait for pushed bursts."""
    known = {query["name"] for query in connection.queries()}
    ask(connection, tables(site))
    if not ask(connection, "SELECT finding FROM actions").rows():
        ask(connection, insert_actions())
        ask(connection, insert_detectors(simulated))
    if "verdicts" not in known:
        ask(connection, functions(site))
    for name, text in QUERIES.items():
        if name not in known:
            ask(connection, text)
    ask(connection, create_sink(site))


def ask(connection: Connection, text: str) -> Answer:
    """Run statements again until a cycle has taken in what was defined before them: on a busy machine the first ones take long."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return connection.sql(text)
        except PenstockError as problem:
            if problem.condition != "not_ready" or time.monotonic() > deadline:
                raise
            time.sleep(REFRESH_S)


def print_decisions(follower: Follower, seconds: float | None) -> None:
    """A line per decision, until Ctrl-C or for so long. A server that is gone for longer than a restart takes ends it."""
    began = well = time.monotonic()
    shown: set[str] = set()
    while seconds is None or time.monotonic() - began < seconds:
        if not follower.boxes.problem:
            well = time.monotonic()
        elif time.monotonic() - well > PATIENCE_S:
            raise ValueError(follower.boxes.problem)
        for row in follower.boxes.decisions():
            if row["box"] not in shown:
                print(describe(row, follower.boxes.what_to_do(row)), flush=True)
                shown.add(row["box"])
        time.sleep(REFRESH_S)


def show_page(boxes: Boxes, run: Path, seconds: float | None, port: int) -> None:
    """Serve the page and print its address, until Ctrl-C or for so long."""
    from nicegui import app as pages
    from nicegui import ui

    from apps.hazmat.page import build, log_limits

    background = read_background(run)
    hypotheses = build_hypotheses(background)

    @ui.page("/")
    def index() -> None:
        build(boxes, hypotheses, background, log_limits(RULES.alpha, RULES.beta))

    chosen = free_port(port)
    print(f"the page is http://127.0.0.1:{chosen}", flush=True)
    if seconds is not None:
        timer = threading.Timer(seconds, pages.shutdown)
        timer.daemon = True
        timer.start()
    ui.run(
        host="127.0.0.1", port=chosen, title="Boxes on the belt", reload=False, show=False, show_welcome_message=False
    )


if __name__ == "__main__":
    app()
