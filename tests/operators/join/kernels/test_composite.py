"""Inequalities that differ in constants: the weakest says what all imply, ranks say what each does, NaN and NULL included."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from bench.probes import composite_probes, separate_probes
from penstock.expr.evaluate import evaluate_mask
from penstock.expr.expression import Call, Column, Expr, Literal
from penstock.operators.join.kernels.refinement import RankedInequalities, as_inequality
from penstock.operators.join.kernels.weakest import shape, weakest
from penstock.types import BOOLEAN, DOUBLE, INT

A, B, K = Column("a.v", DOUBLE), Column("b.v", DOUBLE), Column("a.k", INT)
EDGES = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 0.1, 0.2, 0.3, 1e16, 1e300, -1e300]
numbers = some.one_of(some.sampled_from(EDGES), some.floats(-2, 2, width=16))
constants = some.lists(some.floats(-1e16, 1e16), min_size=2, max_size=6, unique=True)
comparisons = some.sampled_from(["lt", "le", "gt", "ge"])


def _moved(form: str, c: float) -> Expr:
    constant = Literal(c, DOUBLE)
    arguments = {"y + c": (B, constant), "c + y": (constant, B), "y - c": (B, constant), "c - y": (constant, B)}[form]
    return Call("add" if "+" in form else "sub", arguments, DOUBLE)


def _conditions(comparison: str, form: str, swapped: bool, values: list[float]) -> list[Expr]:
    sides = [(_moved(form, c), A) if swapped else (A, _moved(form, c)) for c in values]
    return [Call(comparison, pair, BOOLEAN) for pair in sides]


def _rows(values: list[float | None]) -> tuple[dict[str, pa.Array], int]:
    pairs = list(product(values, values))
    columns = [pa.array([p[i] for p in pairs], pa.float64(), from_pandas=False) for i in range(2)]
    return {"a.v": columns[0], "b.v": columns[1]}, len(pairs)


forms = some.sampled_from(["y + c", "c + y", "y - c", "c - y"])


@settings(deadline=None)  # the first call compiles
@given(comparisons, forms, some.booleans(), constants, some.lists(numbers, min_size=1, max_size=8))
def test_a_rank_decides_like_the_inequality_itself(
    comparison: str, form: str, swapped: bool, values: list[float], given_numbers: list[float | None]
) -> None:
    conditions = _conditions(comparison, form, swapped, values)
    columns, count = _rows([*given_numbers, *EDGES])
    found = [as_inequality(c) for c in conditions]
    assert all(f is not None and f[0] == found[0][0] for f in found)  # type: ignore[index]
    ranked = RankedInequalities("#rank", found[0][0], values)  # type: ignore[index]
    columns["#rank"] = pa.array(ranked.ranks(columns, count))
    for condition, value in zip(conditions, values, strict=True):
        wanted = evaluate_mask(condition, columns, count)
        assert (evaluate_mask(ranked.condition(value), columns, count) == wanted).all()


@settings(deadline=None)  # the first call compiles
@given(comparisons, forms, some.booleans(), constants, some.lists(numbers, min_size=1, max_size=8))
def test_the_weakest_holds_wherever_one_of_them_does_and_nowhere_else(
    comparison: str, form: str, swapped: bool, values: list[float], given_numbers: list[float | None]
) -> None:
    conditions = _conditions(comparison, form, swapped, values)
    columns, count = _rows([*given_numbers, *EDGES])
    one = weakest(conditions)
    assert one in conditions
    some_hold = np.logical_or.reduce([evaluate_mask(c, columns, count) for c in conditions])
    assert (evaluate_mask(one, columns, count) == some_hold).all()


def test_lists_become_one_list_and_unlike_conditions_alternatives() -> None:
    equal = Call("eq", (K, Literal(1, INT)), BOOLEAN)
    listed = Call("in", (K, Literal(2, INT), Literal(3, INT)), BOOLEAN)
    assert shape(equal) == shape(listed)
    assert str(weakest([equal, listed])) == "in(a.k, 1, 2, 3)"
    uneven = [Call("gt", (Call("mul", (A, Literal(c, DOUBLE)), DOUBLE), B), BOOLEAN) for c in (1.0, -1.0)]
    assert shape(uneven[0]) == shape(uneven[1])
    assert weakest(uneven) == Call("or", tuple(uneven), BOOLEAN)
    assert (
        weakest([Call("gt", (Call("mul", (A, Literal(float(c), DOUBLE)), DOUBLE), B), BOOLEAN) for c in range(9)])
        is None
    )


@pytest.mark.parametrize("queries", [1, 7, 64])
def test_one_composite_probe_finds_what_separate_ones_do_with_fewer_comparisons(queries: int) -> None:
    chance = np.random.default_rng(queries)
    new, partners = chance.integers(0, 256, 200).astype(float), np.sort(chance.integers(0, 256, 1000).astype(float))
    added = np.sort(chance.integers(-256, 256, queries).astype(float))
    composite, fewer = composite_probes(new, partners, added)
    separate, more = separate_probes(new, partners, added)
    by_definition = [[int((x < partners + c).sum()) for c in added] for x in new]
    assert (composite == separate).all() and (len(partners) - composite == np.array(by_definition)).all()
    assert fewer < more or (queries == 1 and fewer == more)
