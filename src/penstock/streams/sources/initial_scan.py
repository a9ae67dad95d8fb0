"""The initial scan: static columns first, so that only sensors which may matter are ever opened.

Comes in: a plan's static predicate and the live static rows. Goes out: the sids that survive, for the manager's
`demand`. Run when a query is registered and again whenever rows of its table change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Expr, columns_of


class LiveRows(Protocol):
    """What the scan needs of `catalog.rows.StaticRows`."""

    def current(self) -> pa.Table: ...


def surviving(static_predicate: Expr | None, rows: LiveRows | pa.Table) -> NDArray[np.int32]:
    """Sids of the live sensors for which the predicate is true; NULL is not. No predicate: all of them."""
    table = rows if isinstance(rows, pa.Table) else rows.current()
    sids = np.asarray(table.column("_sid")).astype(np.int32)
    if static_predicate is None or not len(sids):
        return sids
    columns: Mapping[str, pa.Array] = {
        name: table.column(name).combine_chunks() for name in columns_of(static_predicate)
    }
    verdict = evaluate(static_predicate, columns, len(sids), {})
    return np.asarray(sids[np.asarray(verdict.fill_null(False))], dtype=np.int32)
