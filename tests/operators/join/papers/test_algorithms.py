"""Every algorithm against the definition: all combinations, each once, whatever the form, the lag and the steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from bench.joins_baselines import BASELINES
from penstock.expr.expression import Call, Column, Literal
from penstock.operators.join.kernels.bounds import Bounds, close
from penstock.operators.join.kernels.program import Slot, compile_condition
from penstock.operators.join.papers import registry, side_arrays
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.registry import ALGORITHMS, Algorithm
from penstock.operators.join.papers.sides import Counters, Side
from penstock.types import BOOLEAN, DOUBLE
from tests.operators.join.brute import FORMS, Combination, as_combinations, combinations, joins, windows
from tests.support.examples import examples

EVERY = {**ALGORITHMS, **BASELINES}
STREAMS = st.sampled_from([2, 2, 3, 3, 3, 4, 4, 5, 6])


def run(
    algorithm: Algorithm, sides: list[Side], bounds: Bounds, conditions: Conditions | None = None
) -> list[Combination]:
    return as_combinations(algorithm.run(sides, bounds, conditions, Counters()))


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_every_algorithm_finds_what_the_definition_says(form: str, keyed: bool) -> None:
    total = 0

    @seed(5)
    @settings(max_examples=examples(40), deadline=None, database=None)
    @given(joins(form, STREAMS, keyed))
    def check(case: tuple[list[Side], Bounds, int]) -> None:
        nonlocal total
        sides, bounds, _ = case
        expected = combinations(sides, bounds)
        total += len(expected)
        for algorithm in EVERY.values():
            if algorithm.refusal(bounds, keyed) is None:
                assert run(algorithm, sides, bounds) == expected, algorithm.name

    check()
    assert total > 100  # streams so thin that nothing joins would prove nothing


@pytest.mark.parametrize("form", FORMS)
def test_the_steps_together_give_every_combination_once(form: str) -> None:
    @seed(6)
    @settings(max_examples=25, deadline=None, database=None)
    @given(joins(form, st.integers(2, 4), True))
    def check(case: tuple[list[Side], Bounds, int]) -> None:
        sides, bounds, number = case
        rng = np.random.default_rng(number)
        arrivals = [rng.integers(0, 4, len(side)) for side in sides]
        whole = combinations([replace(side, fresh=np.ones(len(side), np.bool_)) for side in sides], bounds)
        for algorithm in EVERY.values():
            if algorithm.refusal(bounds, keyed=True) is None:
                found = []
                for step in range(4):
                    known = [np.flatnonzero(arrived <= step) for arrived in arrivals]
                    now = [
                        Side(side.ts[rows], arrived[rows] == step, None if side.key is None else side.key[rows])
                        for side, rows, arrived in zip(sides, known, arrivals, strict=True)
                    ]
                    steps = run(algorithm, now, bounds)
                    found += [tuple(int(rows[r]) for rows, r in zip(known, one, strict=True)) for one in steps]
                assert sorted(found) == whole, algorithm.name

    check()


def _near(left: str, right: str) -> Call:
    apart = Call("abs", (Call("sub", (Column(left, DOUBLE), Column(right, DOUBLE)), DOUBLE),), DOUBLE)
    return Call("lt", (apart, Literal(0.9, DOUBLE)), BOOLEAN)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("keyed", [True, False])
def test_conditions_are_applied_and_a_null_never_satisfies_one(form: str, keyed: bool) -> None:
    @seed(7)
    @settings(max_examples=20, deadline=None, database=None)
    @given(joins(form, st.integers(2, 5), keyed))
    def check(case: tuple[list[Side], Bounds, int]) -> None:
        sides, bounds, _ = case
        layout = {f"{s}.{c}": Slot(s, c) for s in range(len(sides)) for c in range(2)}
        pairs = [(f"{s}.0", f"{s + 1}.1") for s in range(len(sides) - 1)]
        positive = Call("gt", (Column("0.1", DOUBLE), Literal(-1.0, DOUBLE)), BOOLEAN)
        programs = [compile_condition(e, layout) for e in [*(_near(*pair) for pair in pairs), positive]]
        conditions = Conditions(tuple(p for p in programs if p is not None))
        assert len(conditions.programs) == len(sides)

        def value(stream: int, column: int, row: int) -> float:
            columns, valid = sides[stream].columns, sides[stream].valid
            assert columns is not None and valid is not None
            return float(columns[column, row]) if valid[column, row] else np.nan

        def holds(rows: Combination) -> bool:
            near = (abs(value(s, 0, rows[s]) - value(s + 1, 1, rows[s + 1])) < 0.9 for s in range(len(sides) - 1))
            return value(0, 1, rows[0]) > -1.0 and all(near)

        expected = combinations(sides, bounds, holds)
        for algorithm in EVERY.values():
            if algorithm.refusal(bounds, keyed) is None:
                assert run(algorithm, sides, bounds, conditions) == expected, algorithm.name

    check()


def test_a_lagging_stream_still_finds_partners_that_others_have_outlived() -> None:
    bounds = close(3, windows("path", 3, [5]))
    old, new = np.zeros(2, np.bool_), np.ones(1, np.bool_)
    sides = [
        Side(np.array([0, 90]), old),
        Side(np.array([5, 95]), old),
        Side(np.array([10]), new),
    ]
    for algorithm in EVERY.values():
        if algorithm.refusal(bounds, keyed=False) is None:
            assert run(algorithm, sides, bounds) == [(0, 0, 0)], algorithm.name


def test_a_hot_key_and_a_hash_collision_cost_no_result() -> None:
    rng = np.random.default_rng(3)
    sides = []
    for _ in range(3):
        key = np.where(rng.random(400) < 0.2, 7, rng.integers(-(2**63), 2**63 - 1, 400))
        sides.append(Side(np.sort(rng.integers(0, 4000, 400)), rng.random(400) < 0.5, key))
    bounds = close(3, windows("uniform clique", 3, [300]))
    expected = run(EVERY["nested_loop"], sides, bounds)
    assert len(expected) > 1000
    for algorithm in EVERY.values():
        assert run(algorithm, sides, bounds) == expected, algorithm.name


def test_parts_by_key_find_what_the_whole_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    sides = [
        Side(np.sort(rng.integers(0, 900, 300)), rng.random(300) < 0.5, rng.integers(0, 40, 300), rng.random((1, 300)))
        for _ in range(3)
    ]
    bounds = close(3, windows("clique", 3, [60, 90, 120]))
    less = Call("lt", (Column("0.0", DOUBLE), Column("2.0", DOUBLE)), BOOLEAN)
    program = compile_condition(less, {"0.0": Slot(0, 0), "2.0": Slot(2, 0)})
    assert program is not None
    expected = run(EVERY["nested_loop"], sides, bounds, Conditions((program,)))
    assert len(expected) > 100
    for rows in (1, 50, 10_000):
        monkeypatch.setattr(side_arrays, "ROWS_PER_PART", rows)
        monkeypatch.setattr(registry, "ROWS_PER_PART", rows)
        assert run(EVERY["hash"], sides, bounds, Conditions((program,))) == expected


def test_eight_streams() -> None:
    rng = np.random.default_rng(8)
    sides = [
        Side(np.sort(rng.integers(4 * s, 4 * s + 20, 9)), np.ones(9, np.bool_), rng.integers(0, 3, 9)) for s in range(8)
    ]
    for form in ("uniform clique", "directed path"):
        bounds = close(8, windows(form, 8, [25]))
        expected = combinations(sides, bounds)
        assert expected
        for algorithm in EVERY.values():
            if algorithm.refusal(bounds, keyed=True) is None:
                assert run(algorithm, sides, bounds) == expected, algorithm.name
