"""The paths that joins found, gathered from subscriptions, and how many of them are true."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apps.cameras.statements import query_name
from apps.cameras.town import ROUTES
from apps.cameras.traffic import Car, Traffic
from penstock.client import Connection
from penstock.clock import parse_timestamp
from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Path:
    """One car on its way past the cameras of a route."""

    route: str
    times_us: tuple[int, ...]
    feature: float


class Paths:
    """Follows every route; `found` is in the order in which the server told."""

    def __init__(self, connection: Connection) -> None:
        self._url = connection.url
        self._found: list[Path] = []
        self._lock = threading.Lock()

    def start(self) -> None:
        for route in ROUTES:
            # A daemon: it waits inside a request that ends with the server.
            threading.Thread(target=self._follow, args=(route,), name=query_name(route), daemon=True).start()

    def _follow(self, route: str) -> None:
        try:
            for change in Connection(self._url).subscribe(query_name(route), retry_for_s=0.0):
                self._add(route, change.rows)
        except PenstockError:
            return  # the server has stopped

    def _add(self, route: str, rows: Iterable[dict[str, Any]]) -> None:
        aliases = "abcdefgh"[: len(ROUTES[route])]
        new = [Path(route, tuple(parse_timestamp(row[a]) for a in aliases), row["feature"]) for row in rows]
        with self._lock:
            self._found += new

    def found(self) -> list[Path]:
        with self._lock:
            return list(self._found)


@dataclass(frozen=True, slots=True)
class Score:
    """Against the truth, which only the simulation knows: cars that drove their whole route, and who was found."""

    driven: int
    found: int
    wrong: int


def score(paths: Iterable[Path], traffic: Traffic, since_us: int, until_us: int) -> Score:
    """Cars that set out after the cameras were on and arrived in time to be told."""
    known = {(path.route, path.times_us) for path in paths}
    cars = {_path_of(car): car for car in traffic.cars(since_us - 60_000_000, until_us)}
    due = {
        path
        for path, car in cars.items()
        if car.sightings[0].time_us > since_us and car.sightings[-1].time_us <= until_us
    }
    return Score(len(due), len(due & known), len(known - cars.keys()))


def _path_of(car: Car) -> tuple[str, tuple[int, ...]]:
    return car.route, tuple(sighting.time_us for sighting in car.sightings)
