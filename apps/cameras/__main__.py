"""`python -m apps.cameras`: a server, eight cameras, five routes, and the cars on them."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path as File
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from apps.cameras.drawing import draw_map
from apps.cameras.paths import Path, Paths, Score, score
from apps.cameras.statements import DEFINITIONS, follow, insert_cameras
from apps.cameras.town import ROUTES
from apps.cameras.traffic import SECOND, Traffic
from apps.cameras.view import describe, draw, summary
from penstock.cli.demo import free_port, running_server
from penstock.client import Connection
from penstock.clock import WallClock
from penstock.errors import PenstockError

REFRESH_S = 0.5
# What a car does is known here this long after it was done, on any machine that keeps up.
TOLD_WITHIN_US = 3 * SECOND


def cameras(
    seconds: Annotated[float | None, typer.Option(help="Stop by itself after this long.")] = None,
    map_file: Annotated[File, typer.Option("--map", help="Where the map goes at the end.")] = File("build/cameras.svg"),
    port: Annotated[int, typer.Option(help="Port of the server; another one is taken if it is in use.")] = 8471,
    seed: Annotated[int, typer.Option(help="Another seed, other cars.")] = 1,
    every: Annotated[float, typer.Option(help="Seconds between two cars that set out.", min=0.02)] = 1.0,
    plain: Annotated[bool, typer.Option("--plain", help="Print a line per path instead of a picture.")] = False,
) -> None:
    """Follow simulated cars past cameras by joins of what is alike, and draw their paths."""
    progress, screen = Console(stderr=True), Console()
    traffic = Traffic(seed, every)
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-cameras-", ignore_cleanup_errors=True) as folder:
            progress.print("Starting a Penstock server with Spark inside; ready in 10 to 20 seconds.", highlight=False)
            with running_server(File(folder) / "data", free_port(port), lambda _: None) as connection:
                set_up(connection, traffic)
                following, plain = Paths(connection), plain or not screen.is_terminal
                paths, told = watch(following, traffic, ticks(seconds), screen, plain)
    except KeyboardInterrupt:
        return
    except PenstockError as problem:
        progress.print(problem.render(), markup=False, highlight=False)
        raise typer.Exit(1) from None
    map_file.parent.mkdir(parents=True, exist_ok=True)
    map_file.write_text(draw_map(paths, summary(told)))
    print(f"{summary(told)}; the map is {map_file}")


def watch(
    paths: Paths, traffic: Traffic, ticks: Iterator[None], screen: Console, plain: bool
) -> tuple[list[Path], Score]:
    """Follow paths and show them at each tick, to the last one or Ctrl-C; what was found, and how good it is."""
    clock = WallClock()
    # Cameras are opened by the queries; a car counts if it sets out when all of them are on.
    since_us = clock.now_us() + SECOND
    paths.start()

    def look() -> tuple[list[Path], Score]:
        found = paths.found()
        return found, score(found, traffic, since_us, clock.now_us() - TOLD_WITHIN_US)

    with contextlib.suppress(KeyboardInterrupt):
        if plain:
            shown = 0
            for _ in ticks:
                found = paths.found()
                for path in found[shown:]:
                    print(describe(path), flush=True)
                shown = len(found)
        else:
            with Live(console=screen, screen=True, auto_refresh=False) as live:
                for _ in ticks:
                    live.update(draw(*look(), clock.now_us(), screen.width), refresh=True)
    return look()


def set_up(connection: Connection, traffic: Traffic) -> None:
    connection.sql(DEFINITIONS.format(seed=traffic.seed, every_s=traffic.every_s))
    connection.sql(insert_cameras())
    for route in ROUTES:
        connection.sql(follow(route))


def ticks(seconds: float | None) -> Iterator[None]:
    """The moments to show something new, for so long or for ever."""
    began = time.monotonic()
    while seconds is None or time.monotonic() - began < seconds:
        yield
        time.sleep(REFRESH_S)


if __name__ == "__main__":
    typer.run(cameras)
