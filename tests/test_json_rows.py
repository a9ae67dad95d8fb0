"""Columns as JSON: whole columns at once are what their values one by one are."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.json_rows import json_value, json_values

AT = datetime(2025, 11, 15, 7, 0, 40, 123, UTC)
RECORD = pa.struct(
    {
        "at": pa.timestamp("us", "UTC"),
        "value": pa.float64(),
        "words": pa.list_(pa.string()),
        "price": pa.decimal128(5, 2),
    }
)
RECORDS = [
    None,
    {"at": AT, "value": math.nan, "words": ["a", None], "price": Decimal("1.20")},
    {"at": None, "value": None, "words": None, "price": None},
    {"at": datetime(1969, 1, 1, tzinfo=UTC), "value": math.inf, "words": [], "price": None},
]
COLUMNS = [
    (RECORD, RECORDS),
    (pa.list_(RECORD), [None, [], RECORDS, RECORDS[2:]]),
    (pa.list_(pa.list_(pa.binary())), [[[b"x"], None], None, [[]]]),
    (pa.struct({"inner": RECORD}), [{"inner": each} for each in RECORDS]),
]


@pytest.mark.parametrize(("type_", "values"), COLUMNS, ids=str)
def test_nested_columns_are_what_their_values_are(type_: pa.DataType, values: list[Any]) -> None:
    whole = pa.array(values, type_)
    for column in (pa.chunked_array([whole, whole.slice(1)]), pa.chunked_array([], type_)):
        assert json_values(column) == [json_value(value) for value in column.to_pylist()]
