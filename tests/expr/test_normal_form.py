"""Predicates of equal meaning have one normal form; and whatever the form, it is true where the predicate is."""

from __future__ import annotations

import pytest

from penstock.expr.expression import Call, Column, Expr, Literal
from penstock.expr.normal_form import ALWAYS, NEVER, normal_form
from penstock.types import BIGINT, BOOLEAN, DOUBLE, TEXT

N, X, T = Column("n", BIGINT), Column("x", DOUBLE), Column("t", TEXT)


def call(operation: str, *arguments: Expr | int | float | str | None) -> Call:
    """An operation; plain values become literals of the first column's type."""
    type_ = next((a.type for a in arguments if isinstance(a, Column)), BOOLEAN)
    exprs = tuple(a if isinstance(a, Literal | Column | Call) else Literal(a, type_) for a in arguments)  # type: ignore[arg-type]
    return Call(operation, exprs, BOOLEAN)


SAME = {
    "the constant on the left": (call("gt", N, 3), call("lt", 3, N)),
    "whole numbers have neighbours": (call("gt", N, 3), call("ge", N, 4)),
    "doubles have neighbours": (call("le", X, 0.0), call("lt", X, 5e-324)),
    "zero has one sign": (call("eq", X, 0.0), call("eq", X, -0.0)),
    "AND has no order": (
        call("and", call("gt", N, 3), call("eq", T, "a")),
        call("and", call("eq", T, "a"), call("gt", N, 3)),
    ),
    "AND of ANDs": (
        call("and", call("and", call("gt", N, 3), call("eq", T, "a")), call("gt", X, 1.0)),
        call("and", call("gt", N, 3), call("and", call("eq", T, "a"), call("gt", X, 1.0))),
    ),
    "said twice": (call("and", call("gt", N, 3), call("gt", N, 3)), call("gt", N, 3)),
    "the sharper bound": (call("and", call("gt", N, 3), call("gt", N, 7)), call("gt", N, 7)),
    "between": (
        call("and", call("ge", N, 3), call("le", N, 5)),
        call("not", call("or", call("lt", N, 3), call("gt", N, 5))),
    ),
    "an interval of one": (call("and", call("ge", N, 3), call("le", N, 3)), call("eq", N, 3)),
    "a list and its ORs": (call("in", N, 3, 1, 3), call("or", call("eq", N, 1), call("eq", N, 3))),
    "a list cut by a bound": (call("and", call("in", N, 1, 5, 9), call("gt", N, 3)), call("in", N, 5, 9)),
    "lists cut by each other": (call("and", call("in", N, 1, 5), call("in", N, 5, 9)), call("eq", N, 5)),
    "NOT IN and its parts": (
        call("not", call("in", N, 1, 2)),
        call("and", call("ne", N, 1), call("ne", N, 2)),
    ),
    "a NULL in the list": (call("in", N, 1, None), call("eq", N, 1)),
    "NOT NOT": (call("not", call("not", call("like", T, "a%"))), call("like", T, "a%")),
    "NOT of an OR": (
        call("not", call("or", call("like", T, "a%"), call("is_null", N))),
        call("and", call("not", call("is_null", N)), call("not", call("like", T, "a%"))),
    ),
    "what is compared is not NULL": (call("and", call("gt", N, 3), call("not", call("is_null", N))), call("gt", N, 3)),
    "the same as a constant": (call("same", T, "a"), call("eq", T, "a")),
    "distinct from a constant": (
        call("not", call("same", 3, N)),
        call("or", call("is_null", N), call("ne", N, 3)),
    ),
    "the same as NULL": (call("same", N, None), call("is_null", N)),
    "x AND (x OR y)": (
        call("and", call("gt", N, 3), call("or", call("gt", N, 3), call("eq", T, "a"))),
        call("gt", N, 3),
    ),
    "x OR (x AND y)": (
        call("or", call("gt", N, 3), call("and", call("gt", N, 3), call("eq", T, "a"))),
        call("gt", N, 3),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_equal_meaning_gives_equal_form(name: str) -> None:
    one, other = SAME[name]
    assert normal_form(one) == normal_form(other)


DIFFERENT = {
    "NULL is neither": (call("or", call("lt", N, 3), call("ge", N, 3)), Literal(True, BOOLEAN)),
    "above infinity is NaN": (call("gt", X, float("inf")), call("ge", X, float("inf"))),
    "NULL is distinct": (call("not", call("same", N, 3)), call("ne", N, 3)),
    "other types do not touch": (call("gt", N, 3), call("gt", X, 3.0)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_meaning_gives_other_form(name: str) -> None:
    one, other = DIFFERENT[name]
    assert normal_form(one) != normal_form(other)


def test_what_can_never_be_true_is_seen() -> None:
    assert normal_form(call("and", call("gt", N, 3), call("lt", N, 4))) == NEVER
    assert normal_form(call("not", call("in", N, 1, None))) == NEVER
    assert normal_form(call("eq", N, None)) == NEVER
    assert normal_form(call("and", call("in", N, 1), call("gt", N, 3), call("like", T, "a%"))) == NEVER
    assert normal_form(None) == normal_form(Literal(True, BOOLEAN)) == ALWAYS


def test_a_long_chain_and_a_high_tower_end_well() -> None:
    chain: Expr = call("eq", N, 0)
    for number in range(5000):
        chain = call("or", chain, call("eq", N, number))
    assert normal_form(chain) == normal_form(call("in", N, *range(5000)))
    tower: Expr = call("is_null", N)
    for number in range(300):
        tower = call("or" if number % 2 else "and", tower, call("like", T, f"{number}%"))
    assert normal_form(tower) == tower
