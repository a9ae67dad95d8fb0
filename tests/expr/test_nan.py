"""NaN as a constant of a query."""

from __future__ import annotations

import math
import pickle

from penstock.expr.expression import Literal
from penstock.types import DOUBLE
from tests.support.pipe import Pipe


def test_constants_that_are_nan_are_the_same_expression() -> None:
    one, two = Literal(float("nan"), DOUBLE), Literal(float("inf") - float("inf"), DOUBLE)
    assert one == two and hash(one) == hash(two) and one != Literal(0.0, DOUBLE)
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_call_with_nan_that_a_query_repeats_is_made_once_in_the_cycle(pipe: Pipe) -> None:
    pipe.probes()
    call = "MAX(COALESCE(value, CAST('NaN' AS DOUBLE)))"
    pipe.db.execute(f"CREATE QUERY most AS SELECT {call} AS a, {call} AS b FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.push(3.0)
    pipe.engine.drain()
    (row,) = pipe.db.invoke("most").table.to_pylist()
    assert row == {"a": 3.0, "b": 3.0}
    pipe.restart()
    assert not math.isnan(pipe.db.invoke("most").table.to_pylist()[0]["b"])
