"""Vectorised evaluation against a row-at-a-time evaluator, and the corners by hand."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expr.evaluate import evaluate, evaluate_mask, evaluate_static
from penstock.expr.expression import Call, Column, Expr, Literal
from penstock.functions import OPERATIONS
from penstock.types import BIGINT, BINARY, BOOLEAN, DOUBLE, INT, TEXT, TIMESTAMP, Field, Type, parse_type
from tests.expr.reference import SPECIAL, STRICT, value_of
from tests.expr.strategies import Batch, calls_of, expressions, with_rows
from tests.support.examples import examples


def plain(array: pa.Array) -> list[Any]:
    return (array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array).to_pylist()


def close(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or left == right or math.isclose(left, right, rel_tol=1e-9)
    return bool(left == right) and type(left) is type(right)


def check(batch: Batch, expr: Expr) -> None:
    columns, rows = batch
    found = evaluate(expr, columns, len(rows))
    assert found.type == expr.type.to_arrow()
    expected = [value_of(expr, row) for row in rows]
    pairs = list(zip(plain(found), expected, strict=True))
    assert all(close(a, b) for a, b in pairs), (str(expr), pairs)


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - {"get_field"}))
def test_each_operation_equals_the_row_at_a_time_evaluator(operation: str) -> None:
    @settings(max_examples=18, deadline=None, database=None)
    @given(with_rows(calls_of(operation)))
    def run_it(case: tuple[Batch, Expr]) -> None:
        check(*case)

    run_it()


@settings(max_examples=examples(60), deadline=None)
@given(with_rows(st.sampled_from([INT, BIGINT, DOUBLE, BOOLEAN, TEXT, TIMESTAMP]).flatmap(expressions)))
def test_nested_expressions_equal_the_row_at_a_time_evaluator(case: tuple[Batch, Expr]) -> None:
    check(*case)


@settings(max_examples=examples(60), deadline=None)
@given(with_rows(expressions(BOOLEAN)), st.integers(0, 3))
def test_a_slice_of_a_batch_gives_the_slice_of_the_answer(case: tuple[Batch, Expr], start: int) -> None:
    (columns, rows), expr = case
    cut = {name: array.slice(start) for name, array in columns.items()}
    count = max(len(rows) - start, 0)
    assert evaluate(expr, cut, count).to_pylist() == evaluate(expr, columns, len(rows)).to_pylist()[start:]


def test_the_reference_knows_every_operation() -> None:
    assert set(OPERATIONS) == set(SPECIAL) | set(STRICT)
    assert all(info.description for info in OPERATIONS.values())


def run(operation: str, type_: Type, *arguments: tuple[Any, Type]) -> Any:
    """One row; every argument as a column and then as a constant, which must agree."""
    arrays = {f"a{i}": pa.array([value], t.to_arrow()) for i, (value, t) in enumerate(arguments)}
    stored = [v.hex() if isinstance(v, bytes) else str(v) if isinstance(v, Decimal) else v for v, _ in arguments]
    literals = tuple(Literal(v, t) for v, (_, t) in zip(stored, arguments, strict=True))
    columns = (Column("a0", arguments[0][1]), *literals[1:])
    as_column = plain(evaluate(Call(operation, columns, type_), arrays, 1))[0]
    as_constant = plain(evaluate(Call(operation, literals, type_), {}, 1))[0]
    assert as_column == as_constant or (as_column != as_column and as_constant != as_constant)
    return as_column


@pytest.mark.parametrize(
    ("value", "to", "expected"),
    [
        ((" 42 ", TEXT), INT, 42),
        (("42.9", TEXT), INT, 42),
        (("4294967296", TEXT), INT, None),
        (("forty", TEXT), INT, None),
        ((".", TEXT), INT, 0),
        (("+", TEXT), INT, None),
        (("1e3", TEXT), DOUBLE, 1000.0),
        (("-Infinity", TEXT), DOUBLE, -math.inf),
        (("1_000", TEXT), DOUBLE, None),
        (("Yes", TEXT), BOOLEAN, True),
        (("maybe", TEXT), BOOLEAN, None),
        (("2026-11-15 08:30:00.25", TEXT), TIMESTAMP, 1794731400250000),
        (("2026-11-15T10:30:00+02:00", TEXT), TIMESTAMP, 1794731400000000),
        (("2026-11-15", TEXT), TIMESTAMP, 1794700800000000),
        (("2026-11-15 08", TEXT), TIMESTAMP, 1794729600000000),
        (("08:30", TEXT), TIMESTAMP, None),
        (("2026-02-30", TEXT), TIMESTAMP, None),
        (("1.235", TEXT), parse_type("DECIMAL(5, 2)"), Decimal("1.24")),
        (("1234.5", TEXT), parse_type("DECIMAL(5, 2)"), None),
        ((2.5e9, DOUBLE), INT, 2**31 - 1),
        ((math.nan, DOUBLE), BIGINT, 0),
        ((-1.9, DOUBLE), INT, -1),
        ((2**32 + 5, BIGINT), INT, 5),
        ((1.0, DOUBLE), TEXT, "1.0"),
        ((1e7, DOUBLE), TEXT, "1.0E7"),
        ((1.25e-4, DOUBLE), TEXT, "1.25E-4"),
        ((123456.789, DOUBLE), TEXT, "123456.789"),
        ((-math.inf, DOUBLE), TEXT, "-Infinity"),
        ((1794731400250000, TIMESTAMP), TEXT, "2026-11-15 08:30:00.25"),
        ((1794731400250000, TIMESTAMP), BIGINT, 1794731400),
        ((-1, TIMESTAMP), BIGINT, -1),
        ((10**16, TIMESTAMP), INT, None),
        ((253402300800000000, TIMESTAMP), TEXT, "+10000-01-01 00:00:00"),
        ((5e-324, DOUBLE), TEXT, "4.9E-324"),
        ((1.234e22, DOUBLE), TEXT, "1.234E22"),
        ((1e22, DOUBLE), TEXT, "1.0E22"),
        ((1794731400250000, TIMESTAMP), DOUBLE, 1794731400.25),
        ((90, BIGINT), TIMESTAMP, 90_000_000),
        ((1.5, DOUBLE), TIMESTAMP, 1_500_000),
        ((True, BOOLEAN), INT, 1),
        ((True, BOOLEAN), TEXT, "true"),
        (("y", TEXT), BOOLEAN, True),
        (("No", TEXT), BOOLEAN, False),
        ((0.125, DOUBLE), parse_type("DECIMAL(5, 2)"), Decimal("0.13")),
        ((Decimal("2.5"), parse_type("DECIMAL(5, 2)")), INT, 2),
        ((Decimal("2.50"), parse_type("DECIMAL(5, 2)")), TEXT, "2.50"),
        (("é", TEXT), BINARY, "é".encode()),
        (("é".encode(), BINARY), TEXT, "é"),
        (("9" * 5000, TEXT), BIGINT, None),
        (("-" + "0" * 5000 + "7", TEXT), INT, -7),
        (("1e99999999999999999999", TEXT), parse_type("DECIMAL(5, 2)"), None),
        ((Decimal("9" * 20), parse_type("DECIMAL(20, 0)")), TIMESTAMP, -2537764290116403776),
    ],
)
def test_casts_give_null_where_spark_does_and_its_spelling_elsewhere(
    value: tuple[Any, Type], to: Type, expected: Any
) -> None:
    found = run("cast", to, value)
    assert found == expected and type(found) is type(expected)


def test_decimals_are_exact_and_null_where_they_do_not_fit() -> None:
    narrow, wide = parse_type("DECIMAL(5, 2)"), parse_type("DECIMAL(11, 4)")
    assert run("mul", wide, (Decimal("1.23"), narrow), (Decimal("4.56"), narrow)) == Decimal("5.6088")
    assert run("add", narrow, (Decimal("999.99"), narrow), (Decimal("0.01"), narrow)) is None
    assert run("div", wide, (Decimal("1.00"), narrow), (Decimal("3.00"), narrow)) == Decimal("0.3333")
    assert run("div", wide, (Decimal("1.00"), narrow), (Decimal("0.00"), narrow)) is None
    assert run("mod", narrow, (Decimal("-5.50"), narrow), (Decimal("2.00"), narrow)) == Decimal("-1.50")
    assert run("round", narrow, (Decimal("-2.345"), parse_type("DECIMAL(6, 3)")), (2, INT)) == Decimal("-2.35")
    assert run("floor", BIGINT, (Decimal("-2.50"), narrow)) == -3
    assert run("floor", narrow, (Decimal("-999.50"), narrow)) is None
    assert run("ceil", narrow, (Decimal("998.50"), narrow)) == Decimal("999.00")
    assert run("gt", BOOLEAN, (Decimal("2.50"), narrow), (Decimal("2.49"), narrow)) is True


def test_a_field_of_a_struct_is_null_where_the_struct_is() -> None:
    pair = Type("STRUCT", fields=(Field("x", INT), Field("y", TEXT)))
    column = pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}], pair.to_arrow())
    expr = Call("get_field", (Column("s", pair), Literal("x", TEXT)), INT)
    assert evaluate(expr, {"s": column}, 3).to_pylist() == [1, None, None]


def test_arrays_and_structs_compare_by_value() -> None:
    numbers = Type("ARRAY", element=INT)
    columns = {"x": pa.array([[1], [2], None], numbers.to_arrow()), "y": pa.array([[1], [3], [1]], numbers.to_arrow())}
    expr = Call("eq", (Column("x", numbers), Column("y", numbers)), BOOLEAN)
    assert evaluate(expr, columns, 3).to_pylist() == [True, False, None]


def test_arrays_and_structs_are_ordered_part_by_part_with_null_first_and_nan_last() -> None:
    pair = Type("STRUCT", fields=(Field("x", INT), Field("y", Type("ARRAY", element=DOUBLE))))
    rising = [
        {"x": None, "y": [1.0]},
        {"x": 1, "y": None},
        {"x": 1, "y": [None]},
        {"x": 1, "y": [2.0]},
        {"x": 1, "y": [2.0, 0.0]},
        {"x": 1, "y": [math.nan]},
    ]
    columns = {"a": pa.array(rising, pair.to_arrow()), "b": pa.array([*rising[1:], rising[-1]], pair.to_arrow())}
    less, same = (Call(op, (Column("a", pair), Column("b", pair)), BOOLEAN) for op in ("lt", "eq"))
    assert evaluate(less, columns, 6).to_pylist() == [True] * 5 + [False]
    assert evaluate(same, columns, 6).to_pylist() == [False] * 5 + [True]


def test_a_predicate_that_is_null_selects_nothing() -> None:
    expr = Call("gt", (Column("a", INT), Literal(1, INT)), BOOLEAN)
    assert evaluate_mask(expr, {"a": pa.array([None, 1, 2], pa.int32())}, 3).tolist() == [False, False, True]
    assert evaluate_mask(None, {}, 2).tolist() == [True, True]
    versions = pa.table({"a": pa.chunked_array([pa.array([3], pa.int32()), pa.array([None], pa.int32())])})
    assert evaluate_static(expr, versions).tolist() == [True, False]


def test_the_least_integer_survives_division_and_negation() -> None:
    least = -(2**31)
    assert run("div", INT, (least, INT), (-1, INT)) == least
    assert run("mod", INT, (least, INT), (-1, INT)) == 0
    assert run("neg", INT, (least, INT)) == least
    assert run("abs", INT, (least, INT)) == least


def test_an_empty_batch_gives_an_empty_answer() -> None:
    expr = Call("upper", (Column("t", TEXT),), TEXT)
    assert evaluate(expr, {"t": pa.array([], pa.string())}, 0).to_pylist() == []
