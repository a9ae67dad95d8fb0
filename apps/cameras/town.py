"""The town: where its cameras hang, which roads there are, and the routes that people take. Plain data."""

from __future__ import annotations

import itertools
import math

WIDTH_M, HEIGHT_M = 300.0, 200.0  # x runs east, y runs north
CAMERAS: dict[str, tuple[float, float]] = {
    "west gate": (15.0, 100.0),
    "mill": (90.0, 95.0),
    "station": (105.0, 170.0),
    "harbour": (145.0, 20.0),
    "bridge": (165.0, 105.0),
    "north gate": (190.0, 185.0),
    "market": (225.0, 55.0),
    "east gate": (285.0, 110.0),
}
ROUTES: dict[str, tuple[str, ...]] = {
    "through the centre": ("west gate", "mill", "bridge", "east gate"),
    "back home": ("east gate", "bridge", "mill", "west gate"),
    "by the station": ("west gate", "mill", "station", "north gate"),
    "along the water": ("west gate", "mill", "harbour", "market", "east gate"),
    "to the harbour": ("north gate", "bridge", "market", "harbour"),
}
# Everybody keeps to these.
SLOWEST_M_PER_S, FASTEST_M_PER_S = 9.0, 16.0


def length_m(one: str, other: str) -> float:
    """How long the road between two neighbouring cameras is."""
    return math.dist(CAMERAS[one], CAMERAS[other])


def roads() -> set[tuple[str, str]]:
    """Every road once, as its two cameras by name."""
    return {(min(pair), max(pair)) for route in ROUTES.values() for pair in itertools.pairwise(route)}
