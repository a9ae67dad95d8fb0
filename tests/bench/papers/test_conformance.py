"""Every registered kind of synopsis keeps to the interface: merge, memory, bytes, bounds, batches, lateness, sub-windows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.papers.base import Ints, Synopsis, Values
from bench.papers.registry import KINDS, load, make
from penstock.errors import PenstockError
from tests.bench.papers.cases import CASES, Case
from tests.bench.papers.sizes import sized

WINDOW = 2_000


def named(case: Case) -> str:
    return f"{case.kind} {case.parameters}"


every = pytest.mark.parametrize("case", CASES, ids=named)
every_windowed = pytest.mark.parametrize("case", [case for case in CASES if case.windowed], ids=named)


def stream(case: Case, n: int, seed: int = 0) -> tuple[Values, Ints]:
    """Values with times that repeat, and jump now and then."""
    rng = np.random.default_rng(seed)
    gaps = rng.integers(0, 3, n) + 400 * (rng.random(n) < 0.002)
    return case.draw(rng, n), np.cumsum(gaps).astype(np.int64) + 10_000


def holds(case: Case, synopsis: Synopsis, values: Values, times: Ints, window: int | None = None) -> bool:
    """Whether the truth lies within the bounds of all answers. Bounds that are not certain hold at twice their width."""
    since = synopsis.covered_since(window) if case.windowed else -1
    truth = case.truth(values[(times >= since) & (times <= synopsis.now)])
    answers = synopsis.answers(window)
    assert len(answers) == len(truth) or synopsis.parameters.get("of", case.kind) == "frequent"
    stated = True
    for answer in answers:
        exact = truth[answer.key]
        if math.isnan(exact):
            assert math.isnan(answer.value)
            continue
        slack = 1e-9 * (1 + abs(exact))
        assert answer.lower - slack <= answer.value <= answer.upper + slack
        stated &= answer.lower - slack <= exact <= answer.upper + slack
        if answer.confidence < 1:
            slack += answer.error
        assert answer.lower - slack <= exact <= answer.upper + slack, (answer, exact)
    return stated


def fed(case: Case, values: Values, times: Ints, size: int) -> Synopsis:
    synopsis = case.make(WINDOW)
    for begin in range(0, len(times), size):
        synopsis.update(values[begin : begin + size], times[begin : begin + size])
    return synopsis


def test_every_registered_kind_has_a_case() -> None:
    assert {case.kind for case in CASES} == set(KINDS)


@every
def test_the_truth_lies_within_the_bounds_at_every_step(case: Case) -> None:
    values, times = stream(case, sized(6_000, 2_400))
    synopsis, found = case.make(WINDOW), []
    for begin in range(0, len(times), 150):
        synopsis.update(values[begin : begin + 150], times[begin : begin + 150])
        found.append(holds(case, synopsis, values[: begin + 150], times[: begin + 150]))
    assert np.mean(found) >= 0.85, "bounds of 95 % hold nearly always"


@every_windowed
def test_any_shorter_window_can_be_asked_for(case: Case) -> None:
    values, times = stream(case, 4_000, seed=1)
    synopsis = fed(case, values, times, 500)
    for window in (1, 2, 10, 77, 300, 999, 1500, 2000):
        holds(case, synopsis, values, times, window)
    if not synopsis.randomised:
        assert synopsis.answers(10 * WINDOW) == synopsis.answers()


@every
def test_a_batch_equals_one_by_one(case: Case) -> None:
    values, times = stream(case, sized(700, 150), seed=2)
    batched, single = fed(case, values, times, len(times)), fed(case, values, times, 1)
    if batched.repeatable:
        assert batched.save() == single.save()
    for synopsis in (batched, single):
        holds(case, synopsis, values, times)


@every
def test_merged_ones_answer_for_both_streams(case: Case) -> None:
    for seed in range(sized(8, 2)):
        values, times = stream(case, sized(3_000, 1_000), seed)
        sites = np.random.default_rng(seed).integers(0, 3, len(times))
        whole, *others = (fed(case, values[sites == s], times[sites == s], 400) for s in range(3))
        kept = [other.save() for other in others]
        for other in others:
            whole.merge(other)
        assert [other.save() for other in others] == kept
        holds(case, whole, values, times)


@every
def test_slices_of_one_stream_merge_into_the_whole(case: Case) -> None:
    values, times = stream(case, 3_000, seed=3)
    whole = case.make(WINDOW)
    for begin in range(0, 3_000, 1_000):
        whole.merge(fed(case, values[begin : begin + 1000], times[begin : begin + 1000], 1000))
    holds(case, whole, values, times)


@every
def test_late_values_come_in_and_keep_the_bounds(case: Case) -> None:
    values, times = stream(case, 2_000, seed=4)
    late = np.random.default_rng(4).random(2_000) < 0.1
    synopsis = fed(case, values[~late], times[~late], 300)
    synopsis.update(values[late], times[late])
    holds(case, synopsis, values, times)


@every
def test_memory_stays_bounded_on_random_and_on_adverse_input(case: Case) -> None:
    rng = np.random.default_rng(5)
    rows = sized(100_000, 3_000)
    times, batch = np.sort(rng.integers(0, rows, rows)), rows // 10
    for values in (case.draw(rng, rows), case.adverse(rows)):
        synopsis = case.make(rows // 5)
        for begin in range(0, rows, batch):
            synopsis.update(values[begin : begin + batch], times[begin : begin + batch])
            assert synopsis.nbytes <= case.most_bytes
        assert len(synopsis.save()) <= case.most_bytes + 20_000


@every
def test_a_saved_one_goes_on_as_if_nothing_had_happened(case: Case) -> None:
    values, times = stream(case, 2_000, seed=6)
    synopsis = fed(case, values[:1000], times[:1000], 250)
    loaded = load(synopsis.save())
    assert type(loaded) is type(synopsis) and loaded.now == synopsis.now and loaded.parameters == synopsis.parameters
    if not synopsis.randomised:
        assert str(loaded.answers()) == str(synopsis.answers())
    for one in (loaded, synopsis):
        one.update(values[1000:], times[1000:])
    holds(case, loaded, values, times)
    if loaded.repeatable:
        assert loaded.save() == synopsis.save()


@every
def test_an_empty_one_answers_saves_and_merges(case: Case) -> None:
    empty, other = case.make(WINDOW), case.make(WINDOW)
    values, times = stream(case, 50)
    empty.update(values[:0], times[:0])
    holds(case, empty, values[:0], times[:0])
    empty.merge(load(other.save()))  # type: ignore[arg-type]
    other.update(values, times)
    empty.merge(other)
    holds(case, empty, values, times)


@every_windowed
def test_the_clock_alone_empties_a_window(case: Case) -> None:
    values, times = stream(case, 500)
    synopsis = fed(case, values, times, 100)
    synopsis.advance(int(times[-1]) + 10 * WINDOW)
    assert holds(case, synopsis, values, times)
    synopsis.advance(0)
    assert synopsis.now == int(times[-1]) + 10 * WINDOW


def test_damaged_bytes_are_noticed() -> None:
    saved = bytearray(make("count", window=10).save())
    saved[-1] ^= 1
    with pytest.raises(PenstockError, match="damaged"):
        load(bytes(saved))


def test_different_parameters_do_not_merge() -> None:
    with pytest.raises(PenstockError, match="cannot take in"):
        make("count", window=10).merge(make("count", window=11))


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("count", {"epsilon": 0}),
        ("count", {"window": 0}),
        ("weight_sum", {"epsilon": 2}),
        ("histogram", {"edges": [1, 1]}),
        ("distinct", {"epsilon": 0.0001}),
        ("norm", {"p": 3}),
        ("sliced", {"of": "count", "window": 10, "step": 1}),
        ("cuont", {}),
    ],
)
def test_parameters_out_of_range_are_refused(kind: str, parameters: dict[str, float]) -> None:
    with pytest.raises(PenstockError):
        make(kind, **parameters)


def test_negative_numbers_are_refused_where_the_method_cannot_take_them() -> None:
    for kind in ("sum", "weight_sum"):
        with pytest.raises(PenstockError):
            make(kind).update(np.array([-1.0]), np.array([0]))


def test_what_is_not_a_number_has_no_approximate_sum() -> None:
    for kind in ("weight_sum", "real_sum", "average"):
        with pytest.raises(PenstockError):
            make(kind).update(np.array([1.0, np.nan]), np.array([0, 1]))
