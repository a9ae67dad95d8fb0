"""The stages of a reading's way are those of the cycle that takes its segment."""

from __future__ import annotations

from typing import Any

import pytest

from bench.latency_stages import stages_ms


def cycle(planned: int, head: int) -> dict[str, Any]:
    """One that begins 10 ms after it was planned, works for 20, and is recorded and folded after 2 and 1."""
    moments = {"planned": planned, "began": planned + 10_000, "collected": planned + 30_000}
    return {**moments, "recorded": planned + 32_000, "folded": planned + 33_000, "data": {"3": head}}


def test_a_segment_belongs_to_the_first_cycle_that_reaches_its_end() -> None:
    notes = {
        "written": [(1_000, 3, 10), (2_000, 3, 20), (51_000, 3, 30), (900_000, 3, 40)],
        "cycles": {"1": cycle(5_000, 20), "2": cycle(55_000, 30), "3": cycle(901_000, 40), "4": {"began": 7}},
    }
    times = stages_ms(notes, 0, 100_000)
    assert times == {
        "wait": pytest.approx((4 + 3 + 4) / 3), "spark": 10, "job": 20, "record": 2, "fold": 1, "period": 50
    }  # fmt: skip
