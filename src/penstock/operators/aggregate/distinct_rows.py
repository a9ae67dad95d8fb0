"""DISTINCT over the rows of an answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.slices import normal_key, number_groups


def distinct_rows(rows: pa.Table) -> pa.Table:
    """Of rows that are alike the first. NULLs are alike, and so are NaNs and both zeros, as in GROUP BY."""
    columns = [normal_key(column.combine_chunks()) for column in rows.columns]
    groups, _ = number_groups(columns, rows.num_rows)
    _, first = np.unique(groups, return_index=True)
    return pa.Table.from_arrays(columns, schema=rows.schema).take(pa.array(np.sort(first)))
