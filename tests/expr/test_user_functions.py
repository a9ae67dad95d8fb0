"""User functions: the three shapes of a body, NULLs, vectorised bodies, and errors that name the line."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.catalog.model import Function
from penstock.errors import PenstockError
from penstock.expr.user_functions import check_function, compile_function
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT, Field

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
