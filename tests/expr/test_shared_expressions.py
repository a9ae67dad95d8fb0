"""Expressions that are read from JSON: comparisons that many queries have are kept once, and no number becomes another one."""

from __future__ import annotations

import math

import orjson

from penstock.expr.expression import Call, Column, Expr, Literal, from_json, to_json
from penstock.types import BOOLEAN, Type, parse_type


def comparison(value: object, type_: Type) -> Call:
    return Call("ge", (Column("a", type_), Literal(value, type_)), BOOLEAN)


def read(expr: Expr) -> Expr:
    return from_json(orjson.loads(orjson.dumps(to_json(expr))))


def test_a_comparison_with_a_whole_number_or_a_text_is_kept_once() -> None:
    for expr in (comparison(7, parse_type("INT")), comparison("x", parse_type("TEXT"))):
        assert read(expr) == expr and read(expr) is read(expr)
    assert read(comparison(7, parse_type("INT"))) is not read(comparison(7, parse_type("BIGINT")))
    assert read(comparison(1, parse_type("INT"))) != read(comparison(True, parse_type("BOOLEAN")))


def test_zeros_of_both_signs_stay_what_they_are() -> None:
    for zero in (0.0, -0.0, 0.0):
        found = read(comparison(zero, parse_type("DOUBLE")))
        assert isinstance(found, Call) and isinstance(found.arguments[1], Literal)
        assert math.copysign(1.0, float(str(found.arguments[1].value))) == math.copysign(1.0, zero)
