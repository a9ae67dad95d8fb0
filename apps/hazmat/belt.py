"""The belt that the simulator plays: which box stands between the detectors when, and what is in it.

Everything is a function of the seed and the number of a box, so that all detectors see the same box, and see it again after a restart.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from apps.hazmat.boxes import Content, strength_for, thin_bursts
from apps.hazmat.reading import suro
from apps.hazmat.spectrum import Counts
from apps.hazmat.split import NONE, TEST_BACKGROUND, TEST_NATURAL, TESTS

SECOND = 1_000_000
SIDES = ("left", "right", "front", "back")
SCENARIOS = ("belt", "empty", "threats")
GAP_S = 2
"""Seconds between two boxes."""
WEAKEST, STRONGEST = 10.0, 30.0
"""Net counts per second and detector of a threat on the belt."""


@dataclass(frozen=True, slots=True)
class Belt:
    """A box every `period_s` seconds. `scenario`: "belt" has all kinds, "threats" only threats, "empty" no boxes."""

    seed: int = 1
    period_s: int = 20
    scenario: str = "belt"

    @property
    def stay_s(self) -> int:
        """How long a box stands between the detectors."""
        return self.period_s - GAP_S

    def number_at(self, time_us: int) -> int:
        return time_us // (self.period_s * SECOND)

    def name(self, number: int) -> str:
        return f"box {number % 100_000:05d}"

    def begins_us(self, number: int) -> int:
        return number * self.period_s * SECOND


@functools.lru_cache(maxsize=64)
def truth(belt: Belt, number: int) -> tuple[str, Content]:
    """What is in a box: its name for scoring, and the content. Never written to the log."""
    dice = np.random.default_rng([belt.seed, number])
    office = suro()[TEST_BACKGROUND]
    kind = dice.random()
    if belt.scenario == "empty" or (belt.scenario == "belt" and kind < 0.5):
        return NONE, Content(office)
    if belt.scenario == "belt" and kind < 0.6:
        return "natural", Content(suro()[TEST_NATURAL["fertiliser"][0]])
    material = list(TESTS)[dice.integers(len(TESTS))]
    run = suro()[TESTS[material][dice.integers(len(TESTS[material]))]]
    strength = strength_for(float(dice.uniform(WEAKEST, STRONGEST)), run, office)
    near = dice.uniform(0.6, 1.4, size=2)
    sides = (float(near[0]), float(2 - near[0]), float(near[1]), float(2 - near[1]))
    return material, Content(office, run, min(strength, 1.0 / max(sides)), sides=sides)


@functools.lru_cache(maxsize=8)
def bursts(belt: Belt, number: int) -> Counts:
    """Seconds x detectors x channels of a box; the same for all detectors of a process."""
    _, content = truth(belt, number)
    return thin_bursts(content, belt.stay_s, np.random.default_rng([belt.seed, number, 1]))
