"""apps/cameras on a real server: a stream type of its own, five window joins with a function, held against brute force."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from apps.cameras.__main__ import watch
from apps.cameras.drawing import draw_map
from apps.cameras.town import CAMERAS, FASTEST_M_PER_S, ROUTES, SLOWEST_M_PER_S, length_m
from apps.cameras.traffic import SECOND, Traffic
from apps.cameras.view import summary
from penstock.cli.demo_server import free_port, running_server
from penstock.clock import WallClock
from tests.support.spark_lock import one_spark

ROOT = Path(__file__).parents[2]
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


def test_cars_are_followed_past_cameras_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)  # where the server finds the class of the cameras
    traffic = Traffic(every_s=0.25)
    with one_spark(), running_server(tmp_path / "data", free_port(0), lambda _: None) as connection:
        # The queries, and with them the cameras, are there within a few seconds of this.
        since_us = WallClock().now_us() + 5 * SECOND
        paths, told = watch(connection, traffic, 38.0, Console(), plain=True)
        # A busy machine may be behind with the newest.
        until_us = WallClock().now_us() - 8 * SECOND
    expected = combinations(traffic, since_us, until_us)
    found = {(path.route, path.times_us) for path in paths}
    assert {path for path in found if since_us < path[1][0] and path[1][-1] <= until_us} == expected
    assert len(found) == len(paths), "each path is told once"
    assert len(expected) > 5 and told.found > 0
    assert " -> mill -> " in capsys.readouterr().out
    assert summary(told) in draw_map(paths, summary(told))
