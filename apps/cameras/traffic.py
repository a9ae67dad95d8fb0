"""The cars: a pure function of seed and number, so that every camera and whoever checks it see the same traffic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from apps.cameras.town import FASTEST_M_PER_S, ROUTES, SLOWEST_M_PER_S, length_m

SECOND = 1_000_000
LONGEST_DRIVE_S = max(sum(map(length_m, route[:-1], route[1:])) for route in ROUTES.values()) / SLOWEST_M_PER_S


@dataclass(frozen=True, slots=True)
class Sighting:
    """A car at a camera, as it is measured there."""

    camera: str
    time_us: int
    feature: float


@dataclass(frozen=True, slots=True)
class Car:
    """One drive on one route. `feature`, from 0 to 1000, is what the car looks like."""

    number: int
    route: str
    feature: float
    sightings: tuple[Sighting, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """A car sets out every `every_s` seconds, for ever. `error` is how far a camera is off, at most."""

    seed: int = 1
    every_s: float = 1.0
    error: float = 2.0

    def car(self, number: int) -> Car:
        dice = Random(f"{self.seed}/{number}")
        route = dice.choice(list(ROUTES))
        feature = dice.uniform(0, 1000)
        time_s = (number + dice.random()) * self.every_s
        sightings = []
        places = ROUTES[route]
        for place, following in zip(places, (*places[1:], None), strict=True):
            measured = feature + dice.uniform(-self.error, self.error)
            sightings.append(Sighting(place, int(time_s * SECOND), round(measured, 2)))
            if following is not None:
                time_s += length_m(place, following) / dice.uniform(SLOWEST_M_PER_S, FASTEST_M_PER_S)
        return Car(number, route, feature, tuple(sightings))

    def number_at(self, time_us: int) -> int:
        """The first car that sets out after this time."""
        return math.floor(time_us / SECOND / self.every_s) + 1

    def seen(self, camera: str, after_us: int, until_us: int) -> list[Sighting]:
        """What a camera sees in a span of time, in order."""
        found = [
            sighting
            for car in self.cars(after_us - int(LONGEST_DRIVE_S * SECOND), until_us)
            for sighting in car.sightings
            if sighting.camera == camera and after_us < sighting.time_us <= until_us
        ]
        return sorted(found, key=lambda sighting: sighting.time_us)

    def cars(self, after_us: int, until_us: int) -> Iterator[Car]:
        """The cars that set out in a span of time; a few at its edges may do so just outside."""
        return map(self.car, range(self.number_at(after_us) - 1, self.number_at(until_us) + 1))
