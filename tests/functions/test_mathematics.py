"""POWER at the edges of what numbers are."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Call, Column, Literal
from penstock.types import DOUBLE


@pytest.mark.parametrize("exponent", [0.5, 1.5, 3.0, -0.5])
def test_a_power_of_minus_infinity_is_that_of_c(exponent: float) -> None:
    call = Call("power", (Column("d", DOUBLE), Literal(exponent, DOUBLE)), DOUBLE)
    found = evaluate(call, {"d": pa.array([-math.inf, -math.inf])}, 2, {})
    assert found.to_pylist() == [math.pow(-math.inf, exponent)] * 2
