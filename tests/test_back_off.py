"""Pauses between attempts double up to a limit, however often an attempt fails."""

from __future__ import annotations

from penstock.back_off import BackOff


def test_a_pause_doubles_with_each_failure_up_to_the_limit() -> None:
    back_off = BackOff(least_s=0.5, most_s=3.0)
    assert [back_off.pause_s(failures) for failures in (0, 1, 2, 3, 4, 5, 10**9)] == [0.5, 0.5, 1.0, 2.0, 3.0, 3.0, 3.0]


def test_a_spread_pause_is_between_half_of_it_and_all_of_it() -> None:
    back_off = BackOff(least_s=1.0, most_s=60.0)
    pauses = [back_off.spread_s(4) for _ in range(200)]
    assert all(4.0 <= pause_s <= 8.0 for pause_s in pauses) and len(set(pauses)) > 1
