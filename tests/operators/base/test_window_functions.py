"""Window functions as arrays: the same as looking at the rows of a partition one by one."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from penstock.expr.expression import Column
from penstock.operators.base.window_functions import window_columns
from penstock.sql.plan.window_calls import OrderKey, WindowCall, window_name
from penstock.types import BIGINT, DOUBLE, INT, TEXT, Type
from tests.support.window_loops import looked_up

VALUES: dict[str, tuple[Type, list[Any]]] = {
    "k": (TEXT, [None, "a", "b", "c"]),
    "x": (DOUBLE, [None, 0.0, -0.0, math.nan, math.inf, 1.5, -2.0]),
    "n": (BIGINT, [None, 0, 1, 2, -(2**63)]),
}


@pytest.mark.parametrize("seed", range(80))
def test_every_function_says_what_loops_say(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.choice([0, 1, 2, 30])
    columns = {n: [chance.choice(values) for _ in range(count)] for n, (_, values) in VALUES.items()}
    calls = [call(chance) for _ in range(4)]
    arrays = {n: pa.array(column, VALUES[n][0].to_arrow(), from_pandas=False) for n, column in columns.items()}
    found = window_columns(calls, arrays, count)
    rows = [{n: columns[n][i] for n in columns} for i in range(count)]
    for place, each in enumerate(calls):
        ours, theirs = found[window_name(place)].to_pylist(), looked_up(each, rows)
        assert repr(ours) == repr(theirs), (each, rows)


def call(chance: random.Random) -> WindowCall:
    def column(name: str) -> Column:
        return Column(name, VALUES[name][0])

    partition = tuple(column(name) for name in chance.choice([[], ["k"], ["k", "n"], ["x"]]))
    order = tuple(
        OrderKey(column(name), chance.random() < 0.5, chance.random() < 0.5)
        for name in chance.choice([["x"], ["n"], ["x", "n"], ["k", "x"]])
    )
    function = chance.choice(["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"])
    if function in ("lag", "lead"):
        arguments = (column("x"), *chance.choice([(), (Column("x", DOUBLE),)]))
        return WindowCall(function, DOUBLE, partition, order, arguments, chance.randint(1, 16))
    type_ = DOUBLE if function in ("percent_rank", "cume_dist") else INT
    return WindowCall(function, type_, partition, order, (), chance.randint(1, 5) if function == "ntile" else 0)
