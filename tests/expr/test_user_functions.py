"""User functions: the three shapes of a body, NULLs, vectorised bodies, and errors that name the line."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.catalog.model import Function
from penstock.errors import PenstockError
from penstock.expr.user_functions import check_function, compile_function
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT, Field, Type, parse_type

PAIR = (Field("a", DOUBLE), Field("b", DOUBLE))


def similar(body: str, vectorised: bool = False) -> Function:
    return Function("similar", PAIR, BOOLEAN, body, vectorised=vectorised)


BODIES = [
    " return abs(a - b) < 1 ",
    " abs(a - b) < 1 ",
    "\n    d = abs(a - b)\n    return d < 1\n",
    " d = abs(a - b)\n    return d < 1",
    "\n  def similar(a, b):\n    return abs(a - b) < 1\n",
    " def similar(a, b):\n    return abs(a - b) < 1",
    "import math\ndef helper(x):\n  return math.fabs(x)\nreturn helper(a - b) < 1",
    " if a > b:\n      return a - b < 1\n    return b - a < 1",
]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_is_an_expression_or_statements_or_a_definition(body: str) -> None:
    run = compile_function(similar(body))
    assert run(pa.array([1.0, 5.0]), pa.array([1.5, 1.0])).to_pylist() == [True, False]


def test_a_row_by_row_body_sees_none_for_null_and_may_answer_it() -> None:
    function = Function("label", (Field("a", BIGINT),), TEXT, "return None if a is None else f'#{a}'")
    assert compile_function(function)(pa.array([1, None])).to_pylist() == ["#1", None]


def test_a_vectorised_body_works_on_arrow_or_numpy() -> None:
    arrow = compile_function(similar("return pc.less(pc.abs(pc.subtract(a, b)), 1.0)", True))
    numpy = compile_function(similar("return np.abs(a.to_numpy() - b.to_numpy()) < 1", True))
    for run in (arrow, numpy):
        assert run(pa.array([1.0, 5.0]), pa.array([1.5, 1.0])).to_pylist() == [True, False]


def test_a_function_without_parameters_gives_a_value_per_row() -> None:
    assert compile_function(Function("two", (), INT, "2"))(rows=3).to_pylist() == [2, 2, 2]


def test_creating_a_function_runs_none_of_its_body() -> None:
    check_function(Function("f", (), INT, "raise SystemExit('this must not run')"))
    check_function(Function("f", (), INT, "import no_such_module\ndef f():\n  return 1"))


def failure(function: Function, *arrays: pa.Array) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        compile_function(function)(*arrays)
    return caught.value


def test_an_error_in_the_body_names_its_line() -> None:
    found = failure(similar("\n  c = a - b\n  return 1 / c > 0\n"), pa.array([1.0]), pa.array([1.0]))
    assert found.condition == "function_failed"
    assert "ZeroDivisionError" in found.message and "line 3 of its body" in found.message


def test_a_value_of_the_wrong_type_is_an_error_of_the_function() -> None:
    assert failure(similar("return 'yes'"), pa.array([1.0]), pa.array([1.0])).condition == "function_failed"
    wrong_length = failure(similar("return a.slice(1)", True), pa.array([1.0]), pa.array([1.0]))
    assert "0 values for 1 rows" in wrong_length.message


@pytest.mark.parametrize(
    ("body", "line"), [("\n  c = a -\n  return c\n", 2), ("return (a", 1), ("x = 1\n  return x\n y", 2), ("", None)]
)
def test_a_syntax_error_is_found_when_the_function_is_created(body: str, line: int | None) -> None:
    with pytest.raises(PenstockError) as caught:
        check_function(similar(body))
    assert caught.value.condition in ("syntax_error", "invalid_definition")
    assert line is None or f"line {line} of its body" in caught.value.message


def test_other_languages_and_names_that_python_cannot_use_are_refused() -> None:
    with pytest.raises(PenstockError, match="LANGUAGE lua"):
        check_function(Function("f", (), INT, "1", language="lua"))
    with pytest.raises(PenstockError, match="class"):
        check_function(Function("f", (Field("class", INT),), INT, "1"))


RANGE = parse_type("STRUCT<low: DOUBLE, name: TEXT>")


def ranged(body: str, vectorised: bool = False, returns: Type = RANGE) -> Function:
    return Function("ranged", (Field("a", DOUBLE),), returns, body, vectorised=vectorised)


@pytest.mark.parametrize(
    ("body", "vectorised"),
    [
        ("return None if a is None else {'name': 'x', 'low': a - 1}", False),
        ("return [None if v is None else {'low': v - 1, 'name': 'x'} for v in a.to_pylist()]", True),
        (
            "whole = pa.StructArray.from_arrays([pa.array(['x'] * len(a)), pc.subtract(a, 1)], names=['name', 'low'])\n"
            "return pc.if_else(pc.is_valid(a), whole, None)",
            True,
        ),
    ],
)
def test_a_struct_is_a_dict_with_all_of_its_fields_or_null(body: str, vectorised: bool) -> None:
    found = compile_function(ranged(body, vectorised))(pa.array([1.0, None, 3.5]))
    assert found.type == RANGE.to_arrow()
    assert found.to_pylist() == [{"low": 0.0, "name": "x"}, None, {"low": 2.5, "name": "x"}]


@pytest.mark.parametrize(
    "body",
    [
        "return {'low': pc.subtract(a, 1), 'name': np.array(['x', 'y'])}",
        "return {'name': ['x', 'y'], 'low': np.asarray(a) - 1}",
        "return pa.table({'name': ['x', 'y'], 'low': pc.subtract(a, 1)})",
        "return pa.record_batch({'low': pc.subtract(a, 1), 'name': pa.array(['x', 'y'])})",
    ],
)
def test_a_vectorised_struct_is_a_dict_of_arrays_or_a_table(body: str) -> None:
    found = compile_function(ranged(body, True))(pa.array([1.0, 3.0]))
    assert found.to_pylist() == [{"low": 0.0, "name": "x"}, {"low": 2.0, "name": "y"}]


def test_a_numpy_table_is_an_array_per_row_also_in_a_struct() -> None:
    rows = compile_function(ranged("np.arange(6).reshape(2, 3)", True, parse_type("ARRAY<DOUBLE>")))
    assert rows(pa.array([1.0, 2.0])).to_pylist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    inside = compile_function(ranged("{'bins': np.ones((len(a), 2))}", True, parse_type("STRUCT<bins: ARRAY<DOUBLE>>")))
    assert inside(pa.array([1.0])).to_pylist() == [{"bins": [1.0, 1.0]}]


def test_structs_in_arrays_and_in_structs_are_checked_too() -> None:
    peaks = parse_type("ARRAY<STRUCT<kev: DOUBLE, line: TEXT>>")
    found = compile_function(ranged("[{'kev': a, 'line': 'x'}]", returns=peaks))(pa.array([1.0]))
    assert found.to_pylist() == [[{"kev": 1.0, "line": "x"}]]
    assert 'no field "line"' in failure(ranged("[{'kev': a}]", returns=peaks), pa.array([1.0])).message
    outer = parse_type("STRUCT<inner: STRUCT<x: DOUBLE>>")
    assert 'no field "x"' in failure(ranged("{'inner': {}}", returns=outer), pa.array([1.0])).message


@pytest.mark.parametrize("vectorised", [False, True])
def test_a_struct_with_a_missing_or_an_unknown_field_is_an_error_of_the_function(vectorised: bool) -> None:
    value = "[1.0]" if vectorised else "1.0"
    missing = failure(ranged(f"{{'low': {value}}}", vectorised), pa.array([1.0]))
    assert (
        missing.condition == "function_failed"
        and 'it gave no field "name"; its STRUCT has low, name' in missing.message
    )
    unknown = failure(ranged(f"{{'low': {value}, 'name': None, 'high': {value}}}", vectorised), pa.array([1.0]))
    assert 'it gave a field "high" that its STRUCT has not' in unknown.message


def test_a_value_that_is_no_struct_is_an_error_of_the_function() -> None:
    found = failure(ranged("a"), pa.array([1.0]))
    assert "it gave float where a dict with the fields of its STRUCT belongs" in found.message
    assert failure(ranged("a", True), pa.array([1.0])).condition == "function_failed"
    short = failure(ranged("{'low': [1.0, 2.0], 'name': ['x']}", True), pa.array([1.0]))
    assert "2 values for 1 rows" in short.message
