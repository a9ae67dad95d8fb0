"""The difference of two answers as arrays: the same as that of their rows one by one."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.base.dictionaries import row_hashes
from penstock.operators.base.row_difference import FEW_ROWS, Ids, row_difference, unpaired

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [None, 0, 1, -(2**63), 2**63 - 1],
    pa.float64(): [None, 0.0, -0.0, math.nan, math.inf, 1.5],
    pa.string(): [None, "", "a", "b"],
    pa.bool_(): [None, True, False],
    pa.timestamp("us", "UTC"): [None, 0, 1],
    pa.decimal128(10, 2): [None, "1.00", "2.50"],
    pa.list_(pa.float64()): [None, [], [1.0], [1.0, None]],
    pa.struct({"x": pa.int64()}): [None, {"x": 1}, {"x": None}],
    pa.list_(pa.struct({"x": pa.string(), "y": pa.list_(pa.bool_())})): [
        *(None, [], [None], [{"x": "a", "y": None}], [{"x": "", "y": []}, {"x": None, "y": [True]}]),
        *([{"x": "a", "y": [None]}, None], [{"x": "", "y": []}, {"x": None, "y": [False]}]),
    ],
    pa.null(): [None],
}


def without(rows: pa.Table, other: pa.Table) -> Ids:
    return row_difference(rows, other)[0]


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


def changed(chance: random.Random, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The next answer: some groups came or went, alone or side by side, and some have another value."""
    found = list(rows)
    for _ in range(chance.randint(0, 4)):
        at, count = chance.randint(0, len(found)), chance.choice([1, 3, 60])
        if chance.random() < 0.5:
            del found[at : at + count]
        else:
            found[at:at] = [{"k": chance.randint(0, 10**6), "s": "new", "x": chance.random()} for _ in range(count)]
    return [{**row, "x": chance.choice([None, math.nan, 0.5])} if chance.random() < 0.1 else row for row in found]


@pytest.mark.parametrize("collide", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_the_difference_of_large_answers_is_that_of_their_rows(seed: int, collide: bool) -> None:
    chance = random.Random(seed)
    texts = chance.choice([["a"], [None, "a", "b"], [str(i) for i in range(400)]])
    keys = chance.choice([[1], list(range(FEW_ROWS * 3))])
    first = [{"k": chance.choice(keys), "s": chance.choice(texts), "x": chance.random()} for _ in range(FEW_ROWS * 3)]
    if chance.random() < 0.3:
        first = [{**row, "x": 1.0} for row in first]  # rows without their key are often equal
    schema = pa.schema({"k": pa.int64(), "s": pa.string(), "x": pa.float64()})
    one, two = (pa.Table.from_pylist(rows, schema) for rows in (first, changed(chance, first)))
    mine, theirs = row_difference(one, two)
    ours, others = (Counter(map(comparable, table.to_pylist())) for table in (one, two))
    assert Counter(map(comparable, one.take(pa.array(mine)).to_pylist())) == ours - others
    assert Counter(map(comparable, two.take(pa.array(theirs)).to_pylist())) == others - ours
    # Whatever the hashes are, as many equal rows of both sides are left out.
    pairs = [(a.combine_chunks(), b.combine_chunks()) for a, b in zip(one.columns, two.columns, strict=True)]
    sides = list(zip(*pairs, strict=True))
    hashes = [np.zeros(len(s[0]), np.uint64) if collide else row_hashes(s, len(s[0])) for s in sides]
    left = unpaired(pairs, hashes)
    gone = [
        Counter(comparable(row) for row in table.to_pylist())
        - Counter(map(comparable, table.take(pa.array(ids)).to_pylist()))
        for table, ids in zip((one, two), left, strict=True)
    ]
    assert gone[0] == gone[1]
