"""DISTINCT, ORDER BY, LIMIT and OFFSET over the rows of an answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.aggregate.partials.base import Ints
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
    places = np.arange(rows.num_rows)
    for item in reversed(asked.order):
        ranks = value_ranks(rows.column(item.output).combine_chunks(), item.descending, item.nulls_first)
        places = places[np.argsort(ranks[places], kind="stable")]
    found = rows.take(pa.array(places[asked.offset :][: asked.limit]))
    return found.select(list(range(found.num_columns - len(asked.hidden)))) if asked.hidden else found


def value_ranks(column: pa.Array, descending: bool, nulls_first: bool) -> Ints:
    """The place of each value in an order, the same for equal ones. NaN is above every number."""
    ranks = _ranks(column)
    nulls = ranks < 0
    ranks = -ranks if descending else ranks
    ranks[nulls] = -len(column) if nulls_first else len(column)
    return ranks


def _ranks(column: pa.Array) -> Ints:
    """The place of each value in the order of all of them, the same for equal ones; -1 for NULL."""
    encoded = normal_key(column).dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    found: Ints = np.append(ranks, -1)[encoded.indices.fill_null(-1).to_numpy()]
    return found
