"""The bench of the learned choice: all algorithms find the same in every kind of workload, and each is timed."""

from __future__ import annotations

import pytest

from bench.quality.joins import Phase, Workload, measure, pairs

SMALL = (
    Workload("key", (Phase((60, 60), 10), Phase((5, 90), 10)), pairs(2, 3), phase_steps=6),
    Workload("no key", (Phase((40, 40), 1),), pairs(2, 3), keyed=False, compared=True, phase_steps=6),
    Workload("partly equal", (Phase((30, 30, 30), 9),), pairs(3, 2), keyed=False, linked=True, phase_steps=6),
    Workload("path", (Phase((40, 20, 5), 6),), ((0, 1, 2), (1, 2, 3)), phase_steps=6),
)


@pytest.mark.parametrize("workload", SMALL, ids=lambda workload: workload.name)
def test_every_algorithm_finds_the_same_and_is_timed(workload: Workload) -> None:
    said: list[str] = []
    learning_us: list[float] = []
    assert measure(workload, said.append, learning_us) > 0
    assert said[0].startswith(f"{workload.name}: ") and learning_us[0] > 0
