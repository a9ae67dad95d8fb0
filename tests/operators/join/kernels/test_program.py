"""Conditions as programs say the same as `operators.evaluate`, row by row and over ranges, or decline."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from penstock.expr.evaluate import evaluate_mask
from penstock.expr.expression import Call, Column, Expr, Literal, UserCall
from penstock.operators.join.kernels.program import DEEPEST, Program, Slot, all_of, compile_condition
from penstock.operators.join.kernels.scan import CHUNK, against, match_ranges
from penstock.operators.join.papers.conditions import Conditions, flatten, holds
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT, TIMESTAMP, Type
from tests.support.examples import examples

ORIGIN = 1_700_000_000_000_000
TYPES: dict[str, Type] = {"d": DOUBLE, "e": DOUBLE, "i": INT, "t": TIMESTAMP, "s": DOUBLE, "j": INT}
SURE = ("s", "j")  # never NULL
LAYOUT = {
    f"{stream}.{name}": Slot(number, column, name not in SURE)
    for number, stream in enumerate("ab")
    for column, name in enumerate(TYPES)
}
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    DOUBLE: st.sampled_from([0.0, -0.0, 0.5, -2.0, 3.0, 1e300, math.nan, math.inf, -math.inf]) | st.floats(-5, 5),
    INT: st.sampled_from([0, 1, -1, 7, 2**31 - 1, -(2**31), 46341]) | st.integers(-5, 5),
    TIMESTAMP: st.integers(ORIGIN - 5, ORIGIN + 5),
}


def call(operation: str, type_: Type, *arguments: Expr) -> Call:
    return Call(operation, arguments, type_)


@functools.cache
def numbers(type_: Type, depth: int, sure: bool) -> st.SearchStrategy[Expr]:
    names = [n for n, t in TYPES.items() if t == type_ and (not sure or n in SURE)]
    leaves: st.SearchStrategy[Expr] = st.builds(
        lambda s, n: Column(f"{s}.{n}", type_), st.sampled_from("ab"), st.sampled_from(names)
    ) | VALUES[type_].map(lambda v: Literal(v, type_))
    if depth == 0:
        return leaves
    below = numbers(type_, depth - 1, sure)
    certain = numbers(type_, depth - 1, True)
    binary = ["add", "sub", "mul"] + ([] if sure else ["div"])
    out = [
        leaves,
        st.builds(lambda op, a, b: call(op, type_, a, b), st.sampled_from(binary), below, below),
        st.builds(lambda op, a: call(op, type_, a), st.sampled_from(["neg", "abs"]), below),
        st.builds(lambda op, a, b: call(op, type_, a, b), st.sampled_from(["greatest", "least"]), certain, certain),
    ]
    if type_ == DOUBLE:
        out += [
            below.map(lambda a: call("sqrt", DOUBLE, a)),
            below.map(lambda a: call("mul", DOUBLE, a, a)),
            below.map(lambda a: call("power", DOUBLE, a, Literal(2.0, DOUBLE))),
            numbers(INT, depth - 1, sure).map(lambda a: call("cast", DOUBLE, a)),
            st.builds(lambda a, b: call("add", DOUBLE, a, b), below, numbers(INT, depth - 1, sure)),
        ]
    return st.one_of(*out)


COMPARE = st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"])


def times() -> st.SearchStrategy[Expr]:
    column = st.sampled_from(["a.t", "b.t"]).map(lambda n: Column(n, TIMESTAMP))
    apart = st.builds(lambda x, y: call("diff_us", BIGINT, x, y), column, column)
    size = st.integers(-5, 5).map(lambda v: Literal(v, BIGINT))
    seconds = apart.map(lambda d: call("div", DOUBLE, d, Literal(1e6, DOUBLE)))
    return st.one_of(
        st.builds(lambda op, a, b: call(op, BOOLEAN, a, b), COMPARE, column, column),
        st.builds(lambda op, a, b: call(op, BOOLEAN, call("abs", BIGINT, a), b), COMPARE, apart, size),
        st.builds(lambda op, a: call(op, BOOLEAN, a, Literal(1e-6, DOUBLE)), COMPARE, seconds),
    )


@functools.cache
def truths(depth: int, sure: bool = False) -> st.SearchStrategy[Expr]:
    comparisons = st.one_of(
        *(
            st.builds(lambda op, a, b: call(op, BOOLEAN, a, b), COMPARE, numbers(t, 2, sure), numbers(u, 1, sure))
            for t in (DOUBLE, INT)
            for u in (DOUBLE, INT)
        )
    )
    if not sure:
        comparisons |= times()
    if depth == 0:
        return comparisons
    below, certain = truths(depth - 1, sure), truths(depth - 1, True)
    return st.one_of(
        comparisons,
        st.builds(lambda a, b: call("and", BOOLEAN, a, b), below, below),
        st.builds(lambda a, b: call("or", BOOLEAN, a, b), certain, certain),
        st.builds(lambda a: call("not", BOOLEAN, a), comparisons | certain),
    )


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, list[Any]]]:
    out = []
    for _ in "ab":
        rows = draw(st.integers(1, 6))
        out.append(
            {
                name: draw(st.lists(VALUES[t] if name in SURE else st.none() | VALUES[t], min_size=rows, max_size=rows))
                for name, t in TYPES.items()
            }
        )
    return out


def as_columns(table: dict[str, list[Any]]) -> tuple[np.ndarray, np.ndarray]:
    rows = [[np.nan if v is None else v - ORIGIN * (n == "t") for v in values] for n, values in table.items()]
    return np.array(rows, np.float64), np.array([[v is not None for v in values] for values in table.values()])


def expected_pairs(expr: Expr, tables_: list[dict[str, list[Any]]]) -> list[tuple[int, int]]:
    left, right = (len(t["d"]) for t in tables_)
    pairs = [(a, b) for a in range(left) for b in range(right)]
    arrays = {
        f"{stream}.{name}": pa.array([tables_[number][name][pair[number]] for pair in pairs], TYPES[name].to_arrow())
        for number, stream in enumerate("ab")
        for name in TYPES
    }
    mask = evaluate_mask(expr, arrays, len(pairs))
    return [pair for pair, true in zip(pairs, mask, strict=True) if true]


def usable(program: Program, stream: int, valid: np.ndarray) -> np.ndarray:
    loaded = [column for s, column in program.loads if s == stream]
    return np.asarray(valid[loaded].all(axis=0))


@seed(1)
@settings(max_examples=examples(250), deadline=None, database=None)
@given(tables(), truths(2))
def test_both_evaluators_equal_evaluate(tables_: list[dict[str, list[Any]]], expr: Expr) -> None:
    program = compile_condition(expr, LAYOUT)
    assert program is not None, str(expr)
    expected = expected_pairs(expr, tables_)
    (left, left_valid), (right, right_valid) = map(as_columns, tables_)
    left_ok, right_ok = usable(program, 0, left_valid), usable(program, 1, right_valid)

    flat = flatten(Conditions((program,)))
    values = np.concatenate([left.ravel(), right.ravel()])
    offsets = np.array(
        [np.arange(len(TYPES)) * left.shape[1], left.size + np.arange(len(TYPES)) * right.shape[1]], np.int64
    )
    found = [
        (a, b)
        for a in np.flatnonzero(left_ok)
        for b in np.flatnonzero(right_ok)
        if holds(flat.code, 0, len(flat.code), flat.constants, values, offsets, np.array([a, b]), np.empty(DEEPEST))
    ]
    assert found == expected, str(expr)

    seen = against(program, 1)
    combinations = np.flatnonzero(left_ok)
    outer = np.array([left[column][combinations] for _, column in seen.outer])
    outer = outer.reshape(len(seen.outer), len(combinations)).astype(np.float64)
    lows, highs = np.zeros(len(combinations), np.int64), np.full(len(combinations), right.shape[1])
    which, rows = match_ranges(seen, outer, right, lows, highs, right_ok)
    assert list(zip(combinations[which], rows, strict=True)) == expected, str(expr)


D, I = Column("a.d", DOUBLE), Column("a.i", INT)  # noqa: E741
LESS = call("lt", BOOLEAN, D, Column("b.d", DOUBLE))


@pytest.mark.parametrize(
    "expr",
    [
        call("lt", BOOLEAN, Column("a.big", BIGINT), Literal(1, BIGINT)),
        call("eq", BOOLEAN, Column("a.text", TEXT), Literal("x", TEXT)),
        call("lt", BOOLEAN, D, Literal(None, DOUBLE)),
        call("lt", BOOLEAN, D, Literal(2**60, BIGINT)),
        call("lt", BOOLEAN, Column("a.t", TIMESTAMP), Literal(ORIGIN, TIMESTAMP)),
        call("or", BOOLEAN, LESS, LESS),
        call("not", BOOLEAN, call("and", BOOLEAN, LESS, LESS)),
        call("is_null", BOOLEAN, D),
        call("lt", BOOLEAN, call("coalesce", DOUBLE, D, Literal(0.0, DOUBLE)), D),
        call("lt", BOOLEAN, call("greatest", DOUBLE, D, D), D),
        call("lt", BOOLEAN, call("cast", INT, D), I),
        call("lt", BOOLEAN, call("mul", BIGINT, call("cast", BIGINT, I), call("cast", BIGINT, I)), I),
        call("lt", BOOLEAN, call("floor", BIGINT, D), D),
        UserCall("similar", (D, D), BOOLEAN),
        Literal(True, BOOLEAN),
    ],
    ids=str,
)
def test_what_doubles_or_strict_nulls_cannot_say_is_declined(expr: Expr) -> None:
    layout = {**LAYOUT, "a.big": Slot(0, 9), "a.text": Slot(0, 9)}
    assert compile_condition(expr, layout) is None


def test_an_expression_deeper_than_the_stack_is_declined() -> None:
    deep: Expr = D
    for _ in range(20):
        deep = call("add", DOUBLE, D, deep)
    assert compile_condition(call("lt", BOOLEAN, deep, D), LAYOUT) is None


def test_a_program_knows_what_it_loads() -> None:
    program = compile_condition(call("and", BOOLEAN, LESS, call("gt", BOOLEAN, D, Literal(1.0, DOUBLE))), LAYOUT)
    assert program is not None
    assert set(program.loads) == {(0, 0), (1, 0)}
    assert program.streams == {0, 1}
    assert against(program, 1).outer == ((0, 0),)


def test_ranges_longer_than_a_chunk_and_conditions_joined_together() -> None:
    above = compile_condition(LESS, LAYOUT)
    near = compile_condition(
        call("lt", BOOLEAN, Column("b.d", DOUBLE), call("add", DOUBLE, D, Literal(0.1, DOUBLE))), LAYOUT
    )
    assert above is not None and near is not None
    rng = np.random.default_rng(1)
    left, right = rng.random(5), rng.random(5 * CHUNK)
    lows, highs = np.array([0, 10, 0, 7, 3 * CHUNK]), np.array([5 * CHUNK, 10, CHUNK, 8, 4 * CHUNK + 1])
    which, rows = match_ranges(against(all_of([above, near]), 1), left[None, :], right[None, :], lows, highs)
    expected = [(k, r) for k in range(5) for r in range(lows[k], highs[k]) if left[k] < right[r] < left[k] + 0.1]
    assert list(zip(which, rows, strict=True)) == expected
