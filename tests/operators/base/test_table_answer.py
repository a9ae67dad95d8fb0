"""The difference of two answers as arrays: the same as that of their rows one by one."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from penstock.operators.base.table_answer import without

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [None, 0, 1, -(2**63), 2**63 - 1],
    pa.float64(): [None, 0.0, -0.0, math.nan, math.inf, 1.5],
    pa.string(): [None, "", "a", "b"],
    pa.bool_(): [None, True, False],
    pa.timestamp("us", "UTC"): [None, 0, 1],
    pa.decimal128(10, 2): [None, "1.00", "2.50"],
    pa.list_(pa.float64()): [None, [], [1.0], [1.0, None]],
    pa.struct({"x": pa.int64()}): [None, {"x": 1}, {"x": None}],
    pa.null(): [None],
}


def made(chance: random.Random, types: list[pa.DataType], count: int) -> pa.Table:
    columns = []
    for type_ in types:
        chosen = [chance.choice(VALUES[type_]) for _ in range(count)]
        plain = pa.array(chosen) if pa.types.is_decimal(type_) and any(chosen) else pa.array(chosen, type_)
        columns.append(plain.cast(type_))
    return pa.table(columns, [f"c{i}" for i in range(len(types))])


def one_by_one(rows: pa.Table, other: pa.Table) -> list[int]:
    """Row by row, with a count of what is left of the others."""
    known = Counter(map(comparable, other.to_pylist()))
    found = []
    for at, row in enumerate(map(comparable, rows.to_pylist())):
        if known[row] > 0:
            known[row] -= 1
        else:
            found.append(at)
    return found


def comparable(row: dict[str, Any]) -> tuple[Any, ...]:
    values = (repr(v) if isinstance(v, list | dict) else v for v in row.values())
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in values)


@pytest.mark.parametrize("seed", range(60))
def test_the_difference_of_tables_is_that_of_their_rows(seed: int) -> None:
    chance = random.Random(seed)
    types = chance.choices(list(VALUES), k=chance.randint(1, 3))
    one, two = (made(chance, types, chance.choice([0, 1, 5, 40])) for _ in range(2))
    assert without(one, two).tolist() == one_by_one(one, two)
    assert without(two, one).tolist() == one_by_one(two, one)
    assert without(one, one).tolist() == []


def test_tables_without_any_chunk_are_equal() -> None:
    empty = pa.table({"n": pa.chunked_array([], pa.int64())})
    assert without(empty, empty).tolist() == []
    assert without(pa.table({"n": [1, 1]}), empty).tolist() == [0, 1]
