"""DISTINCT, ORDER BY, LIMIT and OFFSET over the rows of an answer, which are few."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.slices import number_groups
from penstock.operators.base.dictionaries import normal_key
from penstock.sql.plan.output import Sorted


def distinct_rows(rows: pa.Table) -> pa.Table:
    """Of rows that are alike the first. NULLs are alike, and so are NaNs and both zeros, as in GROUP BY."""
    columns = [normal_key(column.combine_chunks()) for column in rows.columns]
    groups, _ = number_groups(columns, rows.num_rows)
    _, first = np.unique(groups, return_index=True)
    return pa.Table.from_arrays(columns, schema=rows.schema).take(pa.array(np.sort(first)))


def sorted_rows(rows: pa.Table, asked: Sorted | None) -> pa.Table:
    """The rows in order; those that are alike in it stay as they were. NaN is above every number.

    What only the order needs is in the last columns, and goes.
    """
    if asked is None:
        return rows
    if asked.distinct:
        rows = distinct_rows(rows)
    places = list(range(rows.num_rows))
    for item in reversed(asked.order):
        values = rows.column(item.output).to_pylist()
        known = [place for place in places if values[place] is not None]
        nulls = [place for place in places if values[place] is None]
        # A sort backwards keeps what is alike in its order, too.
        ranks = {place: _rank(values[place]) for place in known}
        known.sort(key=ranks.__getitem__, reverse=item.descending)
        places = nulls + known if item.nulls_first else known + nulls
    found = rows.take(pa.array(places, pa.int64())).slice(asked.offset, asked.limit)
    return found.select(list(range(found.num_columns - len(asked.hidden)))) if asked.hidden else found


def _rank(value: Any) -> tuple[bool, Any]:
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)
