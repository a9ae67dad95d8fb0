"""apps/cameras on a server: a stream type of its own, five window joins with a function, held against brute force."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from rich.console import Console

import apps.cameras.__main__ as app
from apps.cameras.drawing import draw_map
from apps.cameras.paths import Path, Paths
from apps.cameras.town import CAMERAS, FASTEST_M_PER_S, ROUTES, SLOWEST_M_PER_S, length_m
from apps.cameras.traffic import Traffic
from apps.cameras.view import summary
from penstock.client import Connection
from penstock.clock import WallClock
from tests.spark.asking import eventually
from tests.support.server_process import ServerProcess, local_server_process, server_process

ROOT = pathlib.Path(__file__).parents[2]
Found = set[tuple[str, tuple[int, ...]]]


def combinations(traffic: Traffic, since_us: int, until_us: int) -> Found:
    """Every path by the definition: sightings that are alike, as far apart as the windows of a route say."""
    seen = {camera: traffic.seen(camera, since_us, until_us) for camera in CAMERAS}
    found: Found = set()
    for route, places in ROUTES.items():
        paths = [(first,) for first in seen[places[0]]]
        for one, other in pairwise(places):
            shortest = int(length_m(one, other) / FASTEST_M_PER_S * 10) * 100_000
            longest = int(length_m(one, other) / SLOWEST_M_PER_S * 10 + 1) * 100_000
            paths = [
                (*path, following)
                for path in paths
                for following in seen[other]
                if shortest <= following.time_us - path[-1].time_us <= longest
                and abs(following.feature - path[-1].feature) <= 4.1
            ]
        found |= {(route, tuple(sighting.time_us for sighting in path)) for path in paths}
    return found


def known(path: Path) -> tuple[str, tuple[int, ...]]:
    return path.route, path.times_us


class Watching:
    """From when on all cameras see, and up to when all that they saw was told, however slow the machine is."""

    def __init__(self, connection: Connection, traffic: Traffic) -> None:
        self._traffic = traffic
        app.set_up(connection, traffic)
        seeing = lambda: [s["state"] in ("open", "idle") for s in connection.sensors("cameras")]  # noqa: E731
        eventually(lambda: sum(seeing()) == len(CAMERAS))
        self.since_us = self.until_us = WallClock().now_us()
        self.paths = Paths(connection)

    def ticks(self, seconds: float) -> Iterator[None]:
        yield from app.ticks(seconds)
        self.until_us = WallClock().now_us()
        expected = combinations(self._traffic, self.since_us, self.until_us)
        eventually(lambda: expected <= set(map(known, self.paths.found())))
        yield


@contextmanager
def serving(folder: pathlib.Path) -> Iterator[ServerProcess]:
    """Cycles run without Spark, but for `make soak`."""
    with (server_process if os.environ.get("PENSTOCK_SOAK") else local_server_process)(folder) as server:
        server.start()
        yield server


def test_cars_are_followed_past_cameras_and_drawn(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)  # where the server finds the class of the cameras
    traffic = Traffic(every_s=0.25)
    with serving(tmp_path) as server, server.connect() as connection:
        watching = Watching(connection, traffic)
        paths, told = app.watch(watching.paths, traffic, watching.ticks(28.0), Console(), plain=True)
    since_us, until_us = watching.since_us, watching.until_us
    expected = combinations(traffic, since_us, until_us)
    found = set(map(known, paths))
    assert {path for path in found if since_us < path[1][0] and path[1][-1] <= until_us} == expected
    assert len(found) == len(paths), "each path is told once"
    assert len(expected) > 5 and told.found > 0
    assert " -> mill -> " in capsys.readouterr().out
    assert summary(told) in draw_map(paths, summary(told))
