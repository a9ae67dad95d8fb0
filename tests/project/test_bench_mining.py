"""The arithmetic of the benchmark of mining functions: what it calls found, false, closed or a score is that."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

from bench.mining import (
    calls,
    change_points,
    clusters,
    forecasts,
    generated,
    matches,
    nab,
    patterns,
    periods,
    sequences,
)
from bench.mining.__main__ import PARTS, parsed
from penstock.operators.mining.registry import FUNCTIONS


def labelled(windows: tuple[tuple[int, int], ...], rows: int = 1000) -> nab.Labelled:
    return nab.Labelled(np.arange(rows) * 1_000_000, np.zeros(rows), windows)


def score(alarms: list[int], windows: tuple[tuple[int, int], ...] = ((400, 499), (700, 799))) -> float:
    return nab.score([(labelled(windows), np.array(alarms, np.int64))])


def test_silence_scores_nothing_and_an_alarm_at_the_beginning_of_each_window_everything() -> None:
    assert score([]) == 0
    assert score([400, 700]) == pytest.approx(100)
    assert score([400]) == pytest.approx(50)


def test_an_early_alarm_is_worth_more_than_a_late_one_and_only_the_first_in_a_window_counts() -> None:
    assert 100 > score([430, 700]) > score([480, 700]) > score([499, 700]) > score([700])
    assert score([430, 440, 499, 700]) == score([430, 700])


def test_a_false_alarm_costs_most_far_behind_a_window_and_nothing_while_a_detector_learns() -> None:
    whole = score([400, 700])
    assert score([300, 400, 700]) == pytest.approx(whole - 100 * 0.11 / 4)
    assert whole > score([400, 505, 700]) > score([400, 690, 700]) > score([300, 400, 700]) - 1e-9
    assert score([100, 149, 400, 700]) == whole and score([151, 400, 700]) < whole


def test_slots_have_the_means_of_their_readings_and_alarms_belong_to_their_last_row() -> None:
    times = np.array([5, 12, 13, 31], np.int64)
    series = calls.slotted(times, np.array([1.0, 2.0, 4.0, 8.0]), 10)
    assert series.times.tolist() == [0, 10, 20, 30]
    assert str(series.values.tolist()) == "[1.0, 3.0, nan, 8.0]"
    assert nab.Labelled(times, series.values, ()).row_of(np.array([0, 10, 30]), 10).tolist() == [0, 2, 3]


def test_each_planted_place_is_found_once_and_by_one_point_only() -> None:
    truth = np.array([100, 105, 300])
    assert generated.matched(np.array([103]), truth, 10) == 1
    assert generated.matched(np.array([99, 103, 400]), truth, 10) == 2
    assert generated.matched(np.array([], np.int64), truth, 10) == 0


def test_steps_and_spikes_stand_where_they_are_said_to_be() -> None:
    rng = np.random.default_rng(1)
    found = generated.steps(rng, 50.0, 0.0, 1000, 5, 100)
    assert len(found.places) == 4 and np.diff([0, *found.places, 1000]).min() >= 100
    assert (np.flatnonzero(np.abs(np.diff(found.values)) > 25) + 1).tolist() == found.places.tolist()
    spiky = generated.spikes(rng, np.zeros(500), (5.0, 6.0), 10, 100)
    assert np.flatnonzero(spiky.values).tolist() == spiky.places.tolist()
    assert abs(generated.noise(rng, 20_000, 0.8).std() - 1) < 0.1


def test_closed_sequences_are_those_that_no_symbol_in_front_or_behind_leaves_as_frequent() -> None:
    data, _ = sequences.sequences(0)
    short = [own[:8] for own in data[:10]]
    streams: dict[tuple[str, ...], int] = {}
    for size in (2, 3):
        for items in product("abcdefghijkl", repeat=size):
            count = sum(any(items == part for part in combinations(own, size)) for own in short)
            if count >= 3:
                streams[items] = count
    kept = sequences.closed(streams, 3)
    for items, count in streams.items():
        longer = [streams.get((s, *items)) == count or streams.get((*items, s)) == count for s in "abcdefghijkl"]
        assert (items in kept) == (len(items) == 3 or not any(longer)), items


def test_closed_patterns_lose_periods_with_any_further_letter() -> None:
    a, b = (0, "1"), (1, "2")
    frequent = {frozenset({a}): 5, frozenset({b}): 4, frozenset({a, b}): 4}
    assert patterns.closed(frequent) == {frozenset({a}): 5, frozenset({a, b}): 4}


def test_planted_patterns_are_true_as_often_as_it_is_said() -> None:
    values, always, both = patterns.planted(3)
    rows = [{(int(p), s) for p, s in (letter.split(":") for letter in own)} for own in patterns.transactions(values)]
    assert sum(always <= own for own in rows) == patterns.PERIODS
    assert sum(both <= own for own in rows) == patterns.MOSTLY


def test_a_call_is_the_same_in_sql_and_on_a_series() -> None:
    options = {"history": 30, "score": 2.5, "robust": False}
    call = calls.Call("anomalies", calls.HOUR_US, options)
    assert (
        call.sql == "ANOMALIES(value, every => 3600 SECONDS, history => 108000 SECONDS, score => 2.5, robust => FALSE)"
    )
    rng = np.random.default_rng(5)
    series = calls.series_of(generated.with_gaps(rng, rng.normal(size=200), 0.2))
    said: list[str] = []
    assert call.find(series) and calls.share_in_sql(said.append, call, [series]) == 1 and not said
    levels = calls.Call("periodic_patterns", calls.HOUR_US, {"period": 24, "levels": (-1.0, 1.0), "confidence": 0.3})
    assert calls.share_in_sql(said.append, levels, [series]) == 1 and not said


def test_a_function_that_is_not_there_is_said_loudly() -> None:
    said: list[str] = []
    assert calls.is_missing(said.append, "tea_leaves", "tea") and "TEA IS LEFT OUT" in said[0]
    assert not any(calls.is_missing(said.append, name, name) for name in FUNCTIONS) and len(said) == 1


def test_windows_of_a_forecast_are_followed_by_what_came() -> None:
    values = np.arange(500.0)
    for history, truth in forecasts.windows_of(values):
        assert len(history) == forecasts.HISTORY and len(truth) == forecasts.AHEAD and truth[0] == history[-1] + 1
    assert forecasts.filled(np.array([math.nan, 1.0, math.nan, 3.0])).tolist() == [1.0, 1.0, 2.0, 3.0]


def test_data_are_the_same_in_each_run() -> None:
    for make in (periods.planted, patterns.planted, matches.planted):
        np.testing.assert_equal(make(7), make(7))
    assert np.array_equal(change_points.planted(3.0, 0.6, 1).values, change_points.planted(3.0, 0.6, 1).values)
    assert np.array_equal(clusters.blobs(2, 4, 0), clusters.blobs(2, 4, 0)) and sequences.sequences(
        1
    ) == sequences.sequences(1)
    assert abs(np.median(clusters.scaled(clusters.blobs(2, 4, 0)))) < 1e-9


def test_parts_are_named_one_by_one() -> None:
    assert parsed(["--only", "periods,matches"]).names == ["periods", "matches"] and parsed([]).names == list(PARTS)
    with pytest.raises(SystemExit):
        parsed(["--only", "tea"])
