"""Ordinary tables of a join, in a Spark worker: the versions of their rows, and which a combination sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.catalog.heads import journal_of
from penstock.catalog.state import CatalogState
from penstock.operators.evaluate import Functions
from penstock.operators.expr import Expr
from penstock.operators.joins.combinations import Combinations
from penstock.operators.joins.keys import Ints
from penstock.operators.joins.tables import Table, Versions, order_versions, with_table
from penstock.pipeline.joins.prepared import OrdinaryTable, PreparedJoin

MOST_ORDERED = 256


def join_with_tables(
    join: PreparedJoin, found: Combinations, state: CatalogState, functions: Functions
) -> Iterator[Combinations]:
    """Combinations with the rows of every ordinary table. The state is of the cycle's end, so it knows all versions."""
    if not join.tables:
        yield found
        return
    tables = [_table(len(join.streams) + place, each, state) for place, each in enumerate(join.tables)]
    yield from _grow(found, _last_journal(join, found, state), join.join.aliases, tables, functions)


def _grow(
    made: Combinations, journal: Ints, aliases: Sequence[str], tables: Sequence[Table], functions: Functions
) -> Iterator[Combinations]:
    if not tables:
        yield made
        return
    for found, at in with_table(made, journal, aliases, tables[0], functions):
        yield from _grow(found, at, aliases, tables[1:], functions)


def _last_journal(join: PreparedJoin, found: Combinations, state: CatalogState) -> Ints:
    """The journal position of each combination: that of the tuple that was logged last."""
    last: Ints = np.maximum.reduce(
        [journal_of(found.pos[s], *state.journal_positions(stream.table_id)) for s, stream in enumerate(join.streams)]
    )
    return last


def _table(place: int, each: OrdinaryTable, state: CatalogState) -> Table:
    versions = state.rows(each.table_id).versions()
    return Table(
        place,
        each.alias,
        _ordered(versions, each),
        {name: _whole(versions.column(name)) for name in each.columns},
        tuple(value for value, _ in each.keys),
        each.conditions,
        each.exists,
    )


_ORDERED: dict[tuple[int, Expr | None, tuple[Expr, ...]], tuple[pa.Table, Versions]] = {}


def _ordered(versions: pa.Table, each: OrdinaryTable) -> Versions:
    """The versions in order, kept in this worker until the table changes: soft, and a function of `versions`."""
    own = tuple(column for _, column in each.keys)
    key = (each.table_id, each.predicate, own)
    known = _ORDERED.get(key)
    if known is None or known[0] is not versions:
        if len(_ORDERED) >= MOST_ORDERED:
            _ORDERED.clear()
        known = _ORDERED[key] = (versions, order_versions(versions, each.predicate, own))
    return known[1]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
