"""Encode cells for commit records and snapshots: one Arrow stream with the groups' keys beside each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from penstock.cycle.commit_files import from_payload, to_payload
from penstock.operators.aggregate.partials.base import Mergeable, State
from penstock.operators.aggregate.partials.cells import Cells

Ranges = Sequence[tuple[int, int]]
_PARTS = ("starts", "widths", "firsts", "lasts", "rows")


@dataclass(frozen=True, slots=True)
class CellBatch:
    """A decoded payload: cells of one family, their log ranges, and the keys of their groups."""

    family: str
    measures: list[str]
    ranges: list[tuple[int, int]]
    table: pa.Table
    about: dict[str, Any]  # what else a snapshot holds of the family

    def keys(self) -> list[pa.Array]:
        """The keys of each cell's group."""
        return [self.table.column(n).combine_chunks() for n in self.table.column_names if n.startswith("key.")]

    def cells(self, measure: str, partial: Mergeable, groups: np.ndarray) -> Cells:
        """The cells of one measure, with the reader's own numbers of the groups."""
        place = self.measures.index(measure)
        starts, widths, firsts, lasts, rows = (self.table.column(n).to_numpy() for n in _PARTS)
        state: State = {
            n: partial.from_arrow(n, self.table.column(f"{place}.{n}").combine_chunks()) for n in partial.fields()
        }
        return Cells(starts, widths, groups, firsts, lasts, rows, state)


def to_bytes(
    family: str,
    measures: Mapping[str, Mergeable],
    ranges: Ranges,
    keys: list[pa.Array],
    cells: list[Cells],
    about: dict[str, Any] | None = None,
) -> bytes:
    """Cells of the measures of a family, one for each of `measures`; they differ in their state alone."""
    one = cells[0]
    index = pa.array(one.groups)
    columns: dict[str, pa.Array] = {n: pa.array(getattr(one, n)) for n in _PARTS}
    columns |= {f"key.{i}": key.take(index) for i, key in enumerate(keys)}
    for place, (each, partial) in enumerate(zip(cells, measures.values(), strict=True)):
        columns |= {f"{place}.{n}": partial.to_arrow(n, a) for n, a in each.state.items()}
    header: dict[str, Any] = {"family": family, "measures": list(measures), "ranges": [list(r) for r in ranges]}
    header |= {"about": about} if about else {}
    table = pa.table(columns).replace_schema_metadata({"slices": orjson.dumps(header)})
    return to_payload(table)


def from_bytes(payload: bytes) -> CellBatch:
    table = from_payload(payload)
    header = orjson.loads(table.schema.metadata[b"slices"])
    ranges = [(first, end) for first, end in header["ranges"]]
    return CellBatch(header["family"], header["measures"], ranges, table, header.get("about", {}))


def keys_to_bytes(family: str, keys: list[pa.Array], count: int) -> bytes:
    """The keys of all groups of a family, in the order of their numbers: files of cells have the numbers alone."""
    header = {"family": family, "measures": [], "ranges": [], "about": {"groups": count}}
    table = pa.table({f"key.{i}": key for i, key in enumerate(keys)})
    return to_payload(table.replace_schema_metadata({"slices": orjson.dumps(header)}))
