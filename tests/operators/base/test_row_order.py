"""ORDER BY as arrays: the same as sorting rows one by one."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.operators.base.row_order import sorted_rows
from penstock.sql.plan.output import Sorted, Sorting

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [None, 0, 3, -(2**63), 2**63 - 1],
    pa.float64(): [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.5],
    pa.string(): [None, "", "a", "b", "B", "ä", "\U0001f600", "\uffff"],
    pa.bool_(): [None, True, False],
    pa.timestamp("us", "UTC"): [None, datetime(2026, 1, 1, tzinfo=UTC), datetime(1960, 1, 1, tzinfo=UTC)],
    pa.decimal128(10, 2): [None, Decimal("-1.00"), Decimal("2.50"), Decimal("10.00")],
}


def one_by_one(rows: list[dict[str, Any]], asked: Sorted) -> list[dict[str, Any]]:
    for item in reversed(asked.order):
        name = f"c{item.output}"
        known, nulls = ([row for row in rows if (row[name] is None) is missing] for missing in (False, True))
        known.sort(key=lambda row: rank(row[name]), reverse=item.descending)
        rows = nulls + known if item.nulls_first else known + nulls
    return rows[asked.offset :][: asked.limit]


def rank(value: Any) -> tuple[bool, Any]:
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_sorted_as_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    types = chance.choices(list(VALUES), k=chance.randint(1, 3))
    count = chance.choice([0, 1, 5, 80])
    columns = [pa.array([chance.choice(VALUES[t]) for _ in range(count)], t, from_pandas=False) for t in types]
    table = pa.table([*columns, pa.array(range(count))], [*(f"c{i}" for i in range(len(types))), "place"])
    order = tuple(
        Sorting(chance.randrange(len(types)), chance.random() < 0.5, chance.random() < 0.5)
        for _ in range(chance.randint(1, 3))
    )
    asked = Sorted(order, chance.choice([None, 0, 3]), chance.choice([0, 2]))
    assert repr(sorted_rows(table, asked).to_pylist()) == repr(one_by_one(table.to_pylist(), asked))
