"""Ordinary tables of a join, in a Spark worker: the versions of their rows, and which a combination sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.cache import Cache
from penstock.catalog.histories import journal_of
from penstock.catalog.rows import StaticRows
from penstock.catalog.state import CatalogState
from penstock.expr.evaluate import Functions
from penstock.expr.expression import Expr
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.kernels.tables import LookupTable, Versions, order_versions, with_table
from penstock.operators.join.steps.prepared_join import OrdinaryTable, PreparedJoin


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
    made: Combinations, journal: Ints, aliases: Sequence[str], tables: Sequence[LookupTable], functions: Functions
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


def _table(place: int, each: OrdinaryTable, state: CatalogState) -> LookupTable:
    known = _known_table(each, state.rows(each.table_id))
    return LookupTable(
        place,
        each.alias,
        known.versions,
        {name: known.column(name) for name in each.columns},
        tuple(value for value, _ in each.keys),
        each.conditions,
        each.use,
    )


@dataclass(slots=True)
class _Known:
    """The cached look-up table of an ordinary table, for joins with the same keys and predicate, until the table changes."""

    rows: StaticRows
    table: pa.Table
    versions: Versions
    columns: dict[str, pa.Array] = field(default_factory=dict)

    def column(self, name: str) -> pa.Array:
        if name not in self.columns:
            self.columns[name] = self.table.column(name).combine_chunks()
        return self.columns[name]


# A process runs one planner or one task at a time.
_KNOWN: Cache[tuple[int, Expr | None, tuple[Expr, ...]], _Known] = Cache(most=256)


def _known_table(each: OrdinaryTable, rows: StaticRows) -> _Known:
    """Kept in this worker for as long as the table stays as it is; a change costs its own rows and a short sort."""
    own = tuple(column for _, column in each.keys)
    key, table = (each.table_id, each.predicate, own), rows.versions()
    known = _KNOWN.get(key)
    if known is None or known.table is not table:
        # Only the very same rows are sure to begin as they did.
        before = known.versions if known is not None and known.rows is rows else None
        known = _Known(rows, table, order_versions(table, each.predicate, own, before))
        _KNOWN.put(key, known)
    return known
