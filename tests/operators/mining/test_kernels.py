"""The kernels of mining functions against plain loops, on random series with gaps, ties and constants."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cancellation import Cancellation, cancelled_by
from penstock.errors import PenstockError
from penstock.operators.mining.frequent_sequences import frequent_sequences
from penstock.operators.mining.periodic_patterns import periodic_patterns
from penstock.operators.mining.periods import _peaks, periods
from penstock.operators.mining.registry import FUNCTIONS
from penstock.operators.mining.series import Series
from penstock.types import DOUBLE, TIMESTAMP
from tests.operators.mining.story import same
from tests.oracle import mining

EVERY = 1_000_000


@st.composite
def random_series(draw: st.DrawFn) -> mining.Elements:
    """Elements whose first is a reading, perhaps behind slots without one."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["noise", "ties", "constant", "season", "spiky"]))
    count, gaps, before = draw(st.integers(0, 160)), draw(st.sampled_from([0.0, 0.1, 0.6])), draw(st.integers(0, 90))
    values: list[float | None] = []
    for i in range(count):
        value = {
            "noise": chance.gauss(20, 3),
            "ties": float(chance.randint(0, 3)),
            "constant": 0.1,
            "season": 10 * math.sin(i / 7 * 2 * math.pi) + chance.gauss(0, 0.5),
            "spiky": chance.gauss(0, 1) + 30 * (chance.random() < 0.05),
        }[kind]
        values.append(None if i and chance.random() < gaps else value)
    begin = 1_763_190_000 * EVERY
    times = [begin + (before + i) * EVERY for i in range(count)]
    return mining.Elements(times, values, begin, EVERY)


def as_series(elements: mining.Elements) -> Series:
    values = np.array([math.nan if v is None else v for v in elements.values], np.float64)
    times = np.array(elements.times, np.int64)
    before = (elements.times[0] - elements.begin) // EVERY if elements.times and elements.every else 0
    return Series(times, values, before, elements.every)


def found(name: str, elements: mining.Elements, options: dict[str, Any]) -> list[tuple[Any, ...]]:
    function = FUNCTIONS[name]
    assert function.find is not None
    given_options = {p.name: p.default for p in function.parameters} | options
    series = as_series(elements)
    columns = function.find([series] if function.by else series, given_options)
    assert len({len(column) for column in columns}) == 1
    return list(zip(*(column.tolist() for column in columns), strict=True))


SCORINGS = st.builds(
    mining.Scoring,
    history=st.sampled_from([20, 25, 60]),
    score=st.sampled_from([0.5, 2.0, 4.0]),
    season=st.sampled_from([None, 3, 7]),
    seasons=st.integers(1, 4),
    spread=st.integers(0, 2),
    smooth=st.sampled_from([1, 1, 3]),
    quiet=st.sampled_from([0, 0, 5]),
    robust=st.booleans(),
)


def options_of(asked: mining.Scoring) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in asked.__dataclass_fields__}


def as_line(elements: mining.Elements, line: tuple[int, dict[str, Any]]) -> list[Any]:
    return [elements.times[line[0]], *line[1].values()]


@given(random_series(), SCORINGS)
def test_anomalies_are_those_of_the_definition(elements: mining.Elements, asked: mining.Scoring) -> None:
    truth = [as_line(elements, line) for line in mining.anomalies(elements, asked)]
    assert same([list(line) for line in found("anomalies", elements, options_of(asked))], truth)


@given(random_series(), SCORINGS)
def test_the_newest_score_is_that_of_the_definition(elements: mining.Elements, asked: mining.Scoring) -> None:
    line = mining.anomaly(elements, asked)
    truth = [] if line is None else [as_line(elements, line)]
    assert same([list(each) for each in found("anomaly", elements, options_of(asked))], truth)


@given(random_series(), SCORINGS, st.integers(0, 60), st.integers(0, 60))
def test_a_score_never_changes_with_later_elements_or_where_the_window_begins(
    elements: mining.Elements, asked: mining.Scoring, later: int, earlier: int
) -> None:
    """What both windows return of the elements that both can score is the same."""
    count = max(0, len(elements.times) - later)
    shorter = mining.Elements(elements.times[:count], elements.values[:count], elements.begin, EVERY)
    every = {line[0]: line for line in found("anomalies", elements, options_of(asked))}
    assert found("anomalies", shorter, options_of(asked)) == [every[at] for at in every if at in set(shorter.times)]
    longer = mining.Elements(elements.times, elements.values, elements.begin - earlier * EVERY, EVERY)
    more = {line[0]: line for line in found("anomalies", longer, options_of(asked))}
    assert set(every) <= set(more) and all(more[at] == line for at, line in every.items())


@pytest.mark.parametrize("robust", [True, False])
def test_what_never_varied_has_no_anomaly_behind_a_gap_however_it_is_smoothed(robust: bool) -> None:
    values = [*[0.1] * 40, None, *[0.1] * 20]
    elements = mining.Elements([i * EVERY for i in range(61)], values, 0, EVERY)
    asked = mining.Scoring(history=20, score=0.5, smooth=3, robust=robust)
    assert found("anomalies", elements, options_of(asked)) == [] == mining.anomalies(elements, asked)


@pytest.mark.parametrize("robust", [True, False])
def test_what_never_varied_has_a_scale_of_nothing(robust: bool) -> None:
    """Sums of 0.1 are rounded."""
    times = [i * EVERY for i in range(60)]
    options = options_of(mining.Scoring(history=20, robust=robust))
    for last, expected in ((0.1, 0.0), (0.1000001, 1000.0)):
        elements = mining.Elements(times, [*[0.1] * 59, last], 0, EVERY)
        assert found("anomaly", elements, options) == [(59 * EVERY, last, 0.1, 0.1, 0.1, expected)]


@given(random_series(), st.integers(2, 12), st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_a_baseline_is_that_of_the_definition(elements: mining.Elements, season: int, level: float) -> None:
    truth = [list(line.values()) for line in mining.baseline(elements, season, level)]
    assert same([list(line) for line in found("baseline", elements, {"season": season, "level": level})], truth)


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.takes == "numbers"])
def test_no_elements_give_an_empty_result(name: str) -> None:
    nothing = mining.Elements([], [], 0, EVERY)
    options = {p.name: p.default if p.default is not None else 20 for p in FUNCTIONS[name].own} | {"levels": (1.0,)}
    options["shape"] = (1.0, 2.0, 3.0, 4.0)
    assert found(name, nothing, options) == []


@given(random_series(), st.integers(2, 4), st.booleans(), st.sampled_from([0.1, 0.3, 0.6]))
def test_periods_are_those_of_the_definition(
    elements: mining.Elements, repeats: int, detrend: bool, strength: float
) -> None:
    options = {"strength": strength, "repeats": repeats, "top": 5, "detrend": detrend}
    truth = [list(line.values()) for line in mining.periods(elements, **options)]  # type: ignore[arg-type]
    lines = [[None if v != v else v for v in line] for line in found("periods", elements, options)]
    assert same(lines, truth)


@given(random_series(), st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([2, 5, 10]))
def test_change_points_are_those_of_the_best_partition(
    elements: mining.Elements, penalty: float, shortest: int
) -> None:
    lines = found("change_points", elements, {"penalty": penalty, "shortest": shortest})
    present = [(t, v) for t, v in zip(elements.times, elements.values, strict=True) if v is not None]
    times, values = [t for t, _ in present], [v for _, v in present]
    noise = mining.noise_of(values) if len(values) >= 2 * shortest else 0.0
    if noise == 0:
        assert lines == []
        return
    unit = noise * math.log(len(values))
    edges = [0, *(times.index(line[0]) for line in lines), len(values)]
    parts = [values[low:high] for low, high in pairwise(edges)]
    assert all(len(part) >= shortest for part in parts)
    cost = sum(mining.deviations(part) for part in parts) + len(lines) * penalty * unit
    best, fewest = mining.best_partition(values, penalty * unit, shortest)
    assert cost <= best + 1e-7 * max(best, penalty * unit) and len(lines) <= len(fewest)
    for line, (left, right) in zip(lines, pairwise(parts), strict=True):
        saved = mining.deviations(left + right) - mining.deviations(left) - mining.deviations(right)
        truth = [math.fsum(left) / len(left), math.fsum(right) / len(right), saved / unit]
        assert same([round(each, 6) for each in line[1:]], [round(each, 6) for each in truth])


def exact_costs(values: list[float]) -> Callable[[int, int], Fraction]:
    """The squared deviations of a stretch from its mean, without rounding."""
    sums, squares = [Fraction(0)], [Fraction(0)]
    for value in map(Fraction, values):
        sums.append(sums[-1] + value)
        squares.append(squares[-1] + value * value)

    def cost(low: int, high: int) -> Fraction:
        return squares[high] - squares[low] - (sums[high] - sums[low]) ** 2 / (high - low)

    return cost


@given(st.integers(0, 2**32), st.sampled_from([1e3, 1e6, 1e9]), st.sampled_from([2, 5]))
@settings(max_examples=25)
def test_steps_that_are_huge_beside_the_noise_hide_no_point_and_make_none(
    seed: int, step: float, shortest: int
) -> None:
    """The noise is between 1e5 and 1e11 times smaller, and one of the steps is of its size: the partition is that of exact fractions."""
    chance = random.Random(seed)
    levels = [0.0, chance.uniform(-step, step), step, step + 0.1]
    values = [level + chance.gauss(0, 0.01) for level in levels for _ in range(chance.randint(6, 16))]
    times = [i * EVERY for i in range(len(values))]
    lines = found("change_points", mining.Elements(times, list(values), 0, EVERY), {"shortest": shortest})
    cost, unit = exact_costs(values), mining.noise_of(values) * math.log(len(values))
    penalty = Fraction(3 * unit)
    best: list[tuple[Fraction, list[int]] | None] = [(Fraction(0), [])] + [None] * len(values)
    for end in range(shortest, len(values) + 1):
        starts = [(start, known) for start in range(end - shortest + 1) if (known := best[start]) is not None]
        best[end] = min(
            (
                (before + cost(start, end) + (penalty if start else 0), [*points, *[start] * (start > 0)])
                for start, (before, points) in starts
            ),
            key=lambda each: (each[0], len(each[1])),
        )
    truth = best[-1]
    assert truth is not None and [line[0] // EVERY for line in lines] == truth[1]
    edges = [0, *truth[1], len(values)]
    for line, low, at, high in zip(lines, edges, edges[1:], edges[2:], strict=False):
        means = [float(sum(map(Fraction, values[a:b])) / (b - a)) for a, b in ((low, at), (at, high))]
        gain = float(cost(low, high) - cost(low, at) - cost(at, high)) / unit
        assert same(list(line[1:]), [*means, gain])


def test_one_huge_step_is_one_change_point() -> None:
    chance = np.random.default_rng(1)
    values = [*chance.normal(0, 0.01, 500), *chance.normal(1e6, 0.01, 500)]
    ((at, _, _, gain),) = found(
        "change_points", mining.Elements([i * EVERY for i in range(1000)], values, 0, EVERY), {}
    )
    assert at == 500 * EVERY and gain > 0


@given(random_series(), st.sampled_from([None, 3, 7]), st.integers(1, 20), st.sampled_from([0.5, 0.95]))
def test_a_forecast_is_that_of_the_definition(
    elements: mining.Elements, season: int | None, ahead: int, level: float
) -> None:
    z = NormalDist().inv_cdf((1 + level) / 2)
    truth = mining.forecast(elements, ahead, season, z)
    lines = found("forecast", elements, {"season": season, "ahead": ahead, "level": level})
    assert same([list(line) for line in lines], truth)


@given(
    random_series(), st.integers(12, 20), st.integers(0, 5), st.sampled_from([0.3, 0.6, 0.8, 1.0]), st.integers(1, 3)
)
def test_periodic_patterns_are_what_choices_of_periods_have_in_common(
    elements: mining.Elements, period: int, phase: int, confidence: float, letters: int
) -> None:
    levels = [0.0, 5.0, 20.0]
    truth = mining.periodic_patterns(mining.at_levels(elements, levels), period, phase, confidence, letters)
    options = {"period": period, "levels": tuple(levels), "phase": phase, "confidence": confidence, "letters": letters}
    lines = found("periodic_patterns", elements, {**options, "top": 1000})
    assert same([list(line) for line in lines], [list(line.values()) for line in truth[:1000]])


@st.composite
def random_symbols(draw: st.DrawFn, most: int = 120) -> tuple[mining.Symbols, Series]:
    """Slots with some of three symbols or with none, often in turns; as the oracle and as the kernels have them."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    count, noise, gaps, before = draw(st.integers(0, most)), chance.choice([0.05, 0.4, 1.0]), chance.random() / 2, 7
    seen: list[list[mining.Symbol]] = []
    for i in range(count):
        usual = "ab"[i % 5 > 2]
        own: list[mining.Symbol] = [
            chance.choice("abc") if chance.random() < noise else usual for _ in range(chance.choice([1, 1, 2]))
        ]
        seen.append(own if i == 0 or chance.random() >= gaps else [])
    begin = 1_763_190_000 * EVERY
    times = [begin + (before + i) * EVERY for i in range(count)]
    return mining.Symbols(times, seen, begin, EVERY), Series(np.array(times, np.int64), np.empty(count), before, EVERY)


def coded(series: Series, words: list[Any]) -> Series:
    """The series of these symbols, None where a slot has none."""
    known = tuple(sorted({word for word in words if word is not None}))
    values = np.array([math.nan if word is None else known.index(word) for word in words], np.float64)
    return Series(series.times, values, series.before, series.every_us, known)


@given(random_symbols(), st.integers(2, 4), st.sampled_from([0.1, 0.3, 0.6]))
def test_periods_of_symbols_are_those_of_the_definition(
    given_symbols: tuple[mining.Symbols, Series], repeats: int, strength: float
) -> None:
    symbols, series = given_symbols
    options = {p.name: p.default for p in FUNCTIONS["periods"].parameters} | {
        "strength": strength,
        "repeats": repeats,
        "top": 5,
    }
    columns = periods(coded(series, [own[-1] if own else None for own in symbols.seen]), options)
    lines = [list(line) for line in zip(*(column.tolist() for column in columns), strict=True)]
    truth = mining.symbol_periods(symbols, strength, repeats, 5)
    assert same(lines, [list(line.values()) for line in truth])


@given(random_symbols(), st.integers(10, 15), st.sampled_from([0.3, 0.6, 1.0]))
def test_patterns_of_symbols_are_what_choices_of_periods_have_in_common(
    given_symbols: tuple[mining.Symbols, Series], period: int, confidence: float
) -> None:
    symbols, series = given_symbols
    options = {p.name: p.default for p in FUNCTIONS["periodic_patterns"].parameters}
    options |= {"period": period, "phase": 3, "confidence": confidence, "top": 1000}
    columns = periodic_patterns(coded(series, [tuple(sorted(set(own))) or None for own in symbols.seen]), options)
    lines = [list(line) for line in zip(*(column.tolist() for column in columns), strict=True)]
    truth = mining.periodic_patterns(symbols, period, 3, confidence)[:1000]
    assert same(lines, [list(line.values()) for line in truth])


@given(
    st.lists(random_symbols(30), max_size=6),
    st.sampled_from([0.001, 0.34, 0.5, 1.0]),
    st.integers(2, 4),
    st.sampled_from([0, 0, 1, 3]),
    st.sampled_from([None, 1, 3, 6]),
    st.booleans(),
)
def test_frequent_sequences_are_those_of_all_occurrences(
    given_symbols: list[tuple[mining.Symbols, Series]],
    share: float,
    longest: int,
    gap: int,
    within: int | None,
    collapse: bool,
) -> None:
    asked = {"share": share, "longest": longest, "gap": gap, "within": within, "collapse": collapse}
    sequences = [coded(series, [own[-1] if own else None for own in symbols.seen]) for symbols, series in given_symbols]
    truth = mining.frequent_sequences([symbols for symbols, _ in given_symbols], **asked)  # type: ignore[arg-type]
    assert same(sequences_of(sequences, {**asked, "top": 1000}), truth[:1000])


def sequences_of(sequences: list[Series], options: dict[str, Any]) -> list[dict[str, Any]]:
    usual = {p.name: p.default for p in FUNCTIONS["frequent_sequences"].parameters}
    columns = frequent_sequences(sequences, usual | options)
    names = ("items", "streams", "share")
    return [dict(zip(names, line, strict=True)) for line in zip(*(c.tolist() for c in columns), strict=True)]


def test_a_planted_sequence_is_found_and_the_order_of_sequences_does_not_matter() -> None:
    chance = random.Random(8)
    sequences = []
    for number in range(50):
        words = [chance.choice("abcdefgh") for _ in range(200)]
        if number % 5:
            words[60 + number : 64 + number] = ["x", chance.choice("xyz"), "y", "z"]
        sequences.append(coded(Series(np.arange(200) * EVERY, np.empty(200), 0, EVERY), [*words]))
    asked = {"share": 0.8, "gap": 1, "within": 4, "top": 1000}
    found = sequences_of(sequences, asked)
    whole = [each for each in found if set(each["items"]) <= set("xyz")]
    assert [(*each["items"], each["streams"]) for each in whole] == [("x", "y", "z", 40), ("x", "z", 40)]
    chance.shuffle(sequences)
    assert sequences_of(sequences, asked) == found


def test_so_many_sequences_that_finding_them_takes_long_are_an_error() -> None:
    chance = random.Random(5)
    words = [chance.choice("abc") for _ in range(20_000)]
    sequences = [coded(Series(np.arange(20_000) * EVERY, np.empty(20_000), 0, EVERY), [*words])]
    with pytest.raises(PenstockError, match="too many patterns"):
        sequences_of(sequences, {"gap": 20_000, "longest": 100})


def test_periods_of_many_symbols_are_an_error() -> None:
    series = coded(Series(np.arange(200) * EVERY, np.empty(200), 0, EVERY), [str(i % 70) for i in range(200)])
    with pytest.raises(PenstockError, match="70 different symbols"):
        periods(series, {p.name: p.default for p in FUNCTIONS["periods"].parameters})


def test_a_statement_that_shall_end_ends_inside_of_one_series() -> None:
    symbols = coded(Series(np.arange(400) * EVERY, np.empty(400), 0, EVERY), [*"abac" * 100])
    wave = Series(np.arange(400) * EVERY, np.sin(np.arange(400.0)), 0, EVERY)
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("periods", wave, {}),
        ("periods", symbols, {}),
        ("periodic_patterns", wave, {"period": 4, "levels": (0.0,)}),
        ("frequent_sequences", [symbols], {}),
    ]
    for name, series, options in cases:
        function, cancellation = FUNCTIONS[name], Cancellation()
        assert function.find is not None
        cancellation.cancel("the user said so")
        with cancelled_by(cancellation), pytest.raises(PenstockError, match="the user said so"):
            function.find(series, {p.name: p.default for p in function.parameters} | options)


def test_a_series_with_very_many_peaks_has_its_period() -> None:
    """They are as high as each other, and all are multiples of the first."""
    wave = [10.0 * (i % 7 == 0) for i in range(700_000)]
    elements = mining.Elements([i * EVERY for i in range(len(wave))], [*wave], 0, EVERY)
    ((lag, *_),) = found("periods", elements, {})
    assert lag == 7


@given(st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.5000001, 0.9, 1.0]), min_size=3, max_size=60))
def test_a_peak_stands_out_by_what_one_has_to_go_down_from_it(heights: list[float]) -> None:
    lags, prominences = _peaks(np.array(heights), 0.4)
    for lag, prominence in zip(lags.tolist(), prominences.tolist(), strict=True):
        assert round(prominence, 9) == mining.prominence(heights, lag)


def test_scores_that_would_take_minutes_are_an_error_and_the_newest_alone_is_not() -> None:
    chance = np.random.default_rng(2)
    values = chance.normal(0, 1, 200_000).tolist()
    elements = mining.Elements([i * EVERY for i in range(len(values))], values, 0, EVERY)
    asked: list[dict[str, Any]] = [{"history": 100_000}, {"history": 50_000, "robust": False}]
    asked.append({"history": 20, "season": 1000, "seasons": 20, "spread": 5})
    for options in asked:
        with pytest.raises(PenstockError, match="elements would be scored by a history of") as failed:
            found("anomalies", elements, options)
        assert failed.value.condition == "over_budget"
    assert len(found("anomaly", elements, asked[-1])) == 1


def test_so_many_periods_that_comparing_them_takes_long_are_an_error() -> None:
    """Each comparison is of 50 000 periods at once."""
    chance = random.Random(4)
    values = [float(chance.randint(0, 1)) for _ in range(50_000 * 20)]
    elements = mining.Elements([i * EVERY for i in range(len(values))], [*values], 0, EVERY)
    with pytest.raises(PenstockError, match="too many patterns"):
        found("periodic_patterns", elements, {"period": 20, "levels": (1.0,), "confidence": 0.01})


def test_so_many_rare_sequences_that_growing_them_takes_long_are_an_error() -> None:
    """There are few elements to look at, and 80 000 patterns."""
    chance = random.Random(6)
    words = [chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(3000)]
    sequences = [coded(Series(np.arange(3000) * EVERY, np.empty(3000), 0, EVERY), [*words])]
    with pytest.raises(PenstockError, match="too many patterns"):
        sequences_of(sequences, {"longest": 30, "share": 0.001})


def test_too_many_patterns_are_an_error() -> None:
    chance = random.Random(3)
    values = [float(chance.randint(0, 1)) for _ in range(20 * 60)]
    elements = mining.Elements([i * EVERY for i in range(len(values))], values, 0, EVERY)
    with pytest.raises(PenstockError, match="too many patterns"):
        found("periodic_patterns", elements, {"period": 60, "levels": (1.0,), "confidence": 0.05})


@given(
    random_series(),
    st.sampled_from(["cut", "random", "constant", "ties"]),
    st.integers(4, 12),
    st.sampled_from([1, 3, 1000]),
    st.booleans(),
)
def test_matches_are_those_of_the_definition(
    elements: mining.Elements, kind: str, size: int, top: int, normalise: bool
) -> None:
    chance = random.Random(size)
    shape = {
        "cut": [v if v is not None else 0.0 for v in elements.values[-size:]],
        "random": [chance.gauss(20, 3) for _ in range(size)],
        "constant": [5.0] * size,
        "ties": [float(chance.randint(0, 3)) for _ in range(size)],
    }[kind]
    shape += [0.0] * (4 - len(shape))
    truth = mining.matches(elements, shape, top, normalise)
    lines = found("matches", elements, {"shape": tuple(shape), "top": top, "normalise": normalise})
    assert [line[0] for line in lines] == [line["at"] for line in truth]
    # A correlation near the middle of two numbers of 9 digits may be rounded to either.
    assert all(
        abs(line[1] ** 2 - each["distance"] ** 2) <= 3e-9 * (len(shape) + each["distance"])  # type: ignore[operator]
        for line, each in zip(lines, truth, strict=True)
    )


@pytest.mark.parametrize("normalise", [True, False])
def test_a_long_series_is_compared_as_a_short_one_is(normalise: bool) -> None:
    """It is looked at in blocks: this one has several, and the end of one is found like any other place."""
    chance = np.random.default_rng(8)
    values = chance.normal(0, 1, 5000)
    options = {"shape": tuple(values[1020:1032]), "top": 5, "normalise": normalise}
    values[2042:2054] = values[1020:1032] + 0.01 * chance.normal(0, 1, 12)
    times = [i * EVERY for i in range(len(values))]
    elements = mining.Elements(times, values.tolist(), 0, EVERY)
    lines = found("matches", elements, options)
    assert [line[0] // EVERY for line in lines[:2]] == [1020, 2042] and lines[0][1] == 0
    truth = mining.matches(elements, list(options["shape"]), 5, normalise)  # type: ignore[call-overload]
    assert [line[0] for line in lines] == [line["at"] for line in truth]


def test_a_shape_and_a_series_that_would_take_minutes_are_an_error() -> None:
    values = np.zeros(2_000_000)
    series = Series(np.arange(len(values)), values)
    with pytest.raises(PenstockError, match="2000000 elements with a shape of 4096 numbers"):
        assert FUNCTIONS["matches"].find is not None
        FUNCTIONS["matches"].find(series, {"shape": (1.0,) * 4096, "top": 3, "normalise": True})


def test_a_planted_step_a_planted_period_and_a_repeating_season_are_found() -> None:
    chance = np.random.default_rng(4)
    step = [*chance.normal(10, 1, 60), *chance.normal(15, 1, 60)]
    wave = [10 * math.sin(i / 12 * 2 * math.pi) + chance.normal(0, 1) for i in range(240)]
    times = [i * EVERY for i in range(240)]
    ((at, before, after, gain),) = found("change_points", mining.Elements(times[:120], step, 0, EVERY), {})
    assert at == 60 * EVERY and abs(before - 10) < 0.5 and abs(after - 15) < 0.5 and gain > 3
    first, *_ = found("periods", mining.Elements(times, wave, 0, EVERY), {})
    assert first[0] == 12 and abs(first[1] - 12) < 0.2 and first[2] > 0.9
    ahead = found("forecast", mining.Elements(times, wave, 0, EVERY), {"season": 12, "ahead": 24, "level": 0.99})
    for place, (at, value, lower, upper) in enumerate(ahead):
        truth = 10 * math.sin((240 + place) / 12 * 2 * math.pi)
        assert at == (240 + place) * EVERY and lower < truth < upper and abs(value - truth) < 2


USUAL: dict[str, dict[str, Any]] = {
    "anomalies": {"history": 20, "season": 6, "score": 2.0},
    "anomaly": {"history": 20, "season": 6},
    "baseline": {"season": 6},
    "periodic_patterns": {"period": 6, "levels": (0.0, 10.0)},
    "frequent_sequences": {"levels": (0.0, 10.0)},
    "change_points": {"penalty": 1.0},
    "forecast": {"season": 6, "ahead": 8},
    "matches": {"shape": (0.0, 1.0, 4.0, 1.0, 0.0)},
}
OF_SERIES = [name for name, function in FUNCTIONS.items() if function.takes == "numbers"]


@pytest.mark.parametrize("name", OF_SERIES)
@given(random_series(), st.integers(-1000, 1000))
def test_moving_a_series_by_whole_seasons_moves_times_and_nothing_else(
    name: str, elements: mining.Elements, seasons: int
) -> None:
    by = seasons * 6 * EVERY
    moved = mining.Elements([t + by for t in elements.times], elements.values, elements.begin + by, EVERY)
    times = FUNCTIONS[name].result_of(DOUBLE).element or FUNCTIONS[name].result_of(DOUBLE)
    is_time = [field.type == TIMESTAMP for field in times.fields]
    before, after = (found(name, each, USUAL.get(name, {})) for each in (elements, moved))
    expected = [[v + by if t else v for v, t in zip(line, is_time, strict=True)] for line in before]
    assert str([list(line) for line in after]) == str(expected)


@given(random_series(), st.sampled_from([0.25, 2.0, 1024.0]), st.sampled_from([0.0, 64.0]))
def test_another_unit_leaves_scores_and_periods_alone(elements: mining.Elements, scale: float, offset: float) -> None:
    """Values in steps of 1/256: the other unit has them exactly."""
    exact = [None if v is None else round(v * 256) / 256 for v in elements.values]
    other = [None if v is None else v * scale + offset for v in exact]
    ours, theirs = (mining.Elements(elements.times, v, elements.begin, EVERY) for v in (exact, other))
    scores = (
        ("anomalies", (0, 5)),
        ("anomaly", (0, 5)),
        ("periods", (0, 1, 2)),
        ("change_points", (0,)),
        ("matches", (0,)),
    )
    for name, places in scores:
        one, two = (
            [[line[p] for p in places] for line in found(name, each, USUAL.get(name, {}))] for each in (ours, theirs)
        )
        assert [line[0] for line in one] == [line[0] for line in two], name
        assert all(
            abs(a - b) < 1e-6 * max(1, abs(a)) for x, y in zip(one, two, strict=True) for a, b in zip(x, y, strict=True)
        )
