"""Conditions that hold, by the letter of their definition: no runs, no windows, every pair of readings looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """One row of a log: its place there, its sensor, its time and its value."""

    position: int
    sensor: int
    seconds: float
    value: int | None


def held(log: Sequence[Reading], holds: Callable[[Reading], bool], seconds: float) -> list[Reading]:
    """Readings that a condition has held for so long.

    That is: some reading of the same sensor lies at least so long before, and the condition is true at that one, at this
    one, and at all between them in the order of time and log position.
    """

    def place(reading: Reading) -> tuple[float, int]:
        return reading.seconds, reading.position

    places = {r.position: place(r) for r in log}
    true_at = {r.position: holds(r) for r in log}
    found = []
    for last in log:
        own = [r for r in log if r.sensor == last.sensor and places[r.position] <= places[last.position]]
        for first in own:
            if first.seconds <= last.seconds - seconds and all(
                true_at[r.position] for r in own if places[first.position] <= places[r.position]
            ):
                found.append(last)
                break
    return found
