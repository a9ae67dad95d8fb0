"""The measures as parts that processes run side by side, each with a seed of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from apps.hazmat.measure.names import (
    measure_confusion,
    measure_left_out,
    measure_mixtures,
    measure_other_detectors,
    measure_thorium_elsewhere,
)
from apps.hazmat.measure.outcome import site_hypotheses
from apps.hazmat.measure.rates import (
    Threats,
    measure_elsewhere,
    measure_false_alarms,
    measure_shielding,
    measure_threats,
)

_BATCH = 1000
SEED = 20_261_118


@dataclass(frozen=True, slots=True)
class Part:
    """One measure: its function, how many boxes, and its seed. `site`: it wants the hypotheses of the library's site."""

    name: str
    measure: Callable[..., Any]
    boxes: int
    seed: int
    site: bool = True

    def run(self) -> Any:
        dice = np.random.default_rng([SEED, self.seed])
        return self.measure(*((site_hypotheses(),) if self.site else ()), self.boxes, dice)


def weak_threats(*arguments: Any) -> dict[str, Threats]:
    hypotheses, boxes, dice = arguments
    return measure_threats(hypotheses, 4.0, boxes, dice)


def strong_threats(*arguments: Any) -> dict[str, Threats]:
    hypotheses, boxes, dice = arguments
    return measure_threats(hypotheses, 8.0, boxes, dice)


def parts(scale: float) -> list[Part]:
    def some(boxes: int) -> int:
        return max(int(boxes * scale), 5)

    null = [Part(f"false alarms {n}", measure_false_alarms, some(_BATCH), 100 + n) for n in range(10)]
    return [
        Part("weak", weak_threats, some(100), 1),
        Part("strong", strong_threats, some(100), 2),
        *null,
        Part("elsewhere", measure_elsewhere, some(200), 3),
        Part("confusion", measure_confusion, some(200), 4),
        Part("shielding", measure_shielding, some(50), 5),
        Part("left out", measure_left_out, some(100), 6, site=False),
        Part("mixtures", measure_mixtures, some(50), 7),
        Part("other detectors", measure_other_detectors, some(100), 8, site=False),
        Part("thorium elsewhere", measure_thorium_elsewhere, some(50), 9, site=False),
    ]


def run_part(part: Part) -> Any:
    return part.run()
