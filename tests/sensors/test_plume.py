"""The plume behaves like gas: it drifts with the wind, spreads, thins out, and is the same for everybody."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.clock import SECOND
from penstock.sensors.signals import HEIGHT_M, PLACES, WIDTH_M, Plume, position_of

NOON = 1_763_190_000 * SECOND
HOUR = NOON + np.arange(0, 3600, dtype=np.int64) * SECOND


def test_gas_is_strongest_at_the_leak_and_thins_out_downwind() -> None:
    plume = Plume(seed=1)
    leak = plume.concentration(plume.source, HOUR)
    near = plume.concentration((180.0, 150.0), HOUR)
    far = plume.concentration((390.0, 150.0), HOUR)
    assert leak.max() > near.max() > far.max() > 0
    assert 150 <= leak.max() <= 500


def test_a_probe_upwind_smells_next_to_nothing() -> None:
    assert Plume(seed=1).concentration(PLACES["west gate"], HOUR).max() < 5.0


def test_a_puff_arrives_later_where_it_is_farther_and_stays_longer() -> None:
    plume = Plume(seed=1, every_s=3600.0)  # one puff an hour, at NOON
    start = NOON - NOON % (3600 * SECOND)
    times = start + np.arange(0, 600, dtype=np.int64) * SECOND
    x, y = plume.source
    peaks = [
        np.max([plume.concentration((x + d, y + side), times) for side in range(-150, 151, 25)], axis=0)
        for d in (50.0, 120.0, 200.0)
    ]
    arrivals = [int(c.argmax()) for c in peaks]
    assert arrivals == sorted(arrivals) and arrivals[0] < arrivals[-1]
    lasts = [int((c > c.max() / 2).sum()) for c in peaks]
    assert lasts[0] < lasts[-1]


def test_the_gas_of_a_puff_neither_grows_nor_vanishes_while_it_spreads() -> None:
    plume = Plume(seed=3, every_s=3600.0)
    start = NOON - NOON % (3600 * SECOND)
    grid = [(x, y) for x in range(-400, 1000, 20) for y in range(-500, 800, 20)]
    totals = [
        sum(float(plume.concentration(p, np.array([start + age * SECOND]))[0]) for p in grid) for age in (60, 200)
    ]
    assert totals[0] == pytest.approx(totals[1], rel=0.02)


def test_some_probes_alarm_within_a_few_minutes_and_not_all() -> None:
    times = NOON + np.arange(0, 300, dtype=np.int64) * SECOND
    plume = Plume(seed=1)
    probes = [(20.0 + 40 * i, 20.0 + 50 * j) for i in range(10) for j in range(6)]
    alarmed = sum(float(plume.concentration(p, times).max()) > 35 for p in probes)
    assert 3 <= alarmed <= 40


def test_a_concentration_does_not_depend_on_the_batch_it_is_computed_in() -> None:
    plume = Plume(seed=9)
    whole = plume.concentration((200.0, 150.0), HOUR)
    pieces = np.concatenate([plume.concentration((200.0, 150.0), part) for part in np.array_split(HOUR, 77)])
    assert np.allclose(whole, pieces, rtol=1e-12, atol=1e-12)


def test_an_address_is_a_position_a_place_or_a_name_with_a_spot_of_its_own() -> None:
    assert position_of("12.5, 80") == (12.5, 80.0)
    assert position_of("North Gate") == PLACES["north gate"]
    spots = {position_of(f"probe {i}") for i in range(60)}
    assert len(spots) == 60
    assert all(0 <= x <= WIDTH_M and 0 <= y <= HEIGHT_M for x, y in spots)
    assert position_of("probe 1") == position_of("Probe 1 ")
