"""Slice rows of a family into cells: workers slice new rows, the server slices the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Expr, columns_of
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.partials.cells import Cells
from penstock.operators.aggregate.partials.slices import number_groups, slice_rows
from penstock.operators.aggregate.shape import Family, Measure


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one table, in log order: the columns that are needed, by flat name."""

    first: int
    times: Ints
    vids: npt.NDArray[np.int32]
    columns: Mapping[str, pa.Array]
    versions: pa.Table


@dataclass(frozen=True, slots=True)
class FamilyRows:
    """Rows of a family, with their groups and the arguments of measures. `keys`: those of the groups, by their numbers."""

    times: Ints
    positions: Ints
    groups: Ints
    keys: list[pa.Array]
    arguments: Mapping[Expr, pa.Array]

    @property
    def nbytes(self) -> int:
        return 3 * self.times.nbytes + sum(int(argument.nbytes) for argument in self.arguments.values())

    def take(self, chosen: np.ndarray) -> FamilyRows:
        index = pa.array(chosen)
        arguments = {expr: argument.take(index) for expr, argument in self.arguments.items()}
        return FamilyRows(self.times[chosen], self.positions[chosen], self.groups[chosen], self.keys, arguments)


@dataclass(frozen=True, slots=True)
class SlicedFamily:
    """Cells per measure, all alike but for their state, and the keys of the groups that they number."""

    keys: list[pa.Array]
    cells: list[Cells]


def slice_family(
    family: Family, measures: Sequence[Measure], batch: Batch, chosen: npt.NDArray[Any] | None, width: int
) -> SlicedFamily:
    """Aggregate those rows of the batch that `chosen` (ascending offsets) names; None: all."""
    rows = family_rows(family, measures, batch, chosen)
    sliced = slice_rows(rows.times, rows.positions, rows.groups, width)
    used, inverse = np.unique(sliced.groups, return_inverse=True)
    cells = []
    for measure in measures:
        found = sliced.aggregate(measure.make(), [rows.arguments[a] for a in measure.arguments])
        cells.append(replace(found, groups=inverse))
    return SlicedFamily([key.take(pa.array(used)) for key in rows.keys], cells)


def family_rows(
    family: Family, measures: Sequence[Measure], batch: Batch, chosen: npt.NDArray[Any] | None
) -> FamilyRows:
    """Those rows of the batch that `chosen` (ascending offsets) names; None: all."""
    offsets = np.arange(len(batch.times)) if chosen is None else chosen.astype(np.int64, copy=False)
    whole = len(offsets) == len(batch.times)
    columns: Mapping[str, pa.Array] = batch.columns
    if not whole:
        index = pa.array(offsets)
        names = {n for n in columns if any(n in columns_of(e) for m in measures for e in m.arguments)}
        names |= {n for key in family.keys for n in columns_of(key) if n in columns}
        columns = {name: columns[name].take(index) for name in names}
    vids = batch.vids if whole else batch.vids[offsets]
    groups, keys = _groups(family, columns, vids, batch.versions)
    arguments = {a: evaluate(a, columns, len(offsets)) for m in measures for a in m.arguments}
    return FamilyRows(batch.times[offsets], offsets + batch.first, groups, keys, arguments)


def _groups(
    family: Family, columns: Mapping[str, pa.Array], vids: npt.NDArray[np.int32], versions: pa.Table
) -> tuple[Ints, list[pa.Array]]:
    if not family.keys:
        return np.zeros(len(vids), np.int64), []
    if not family.is_static:
        return number_groups([evaluate(key, columns, len(vids)) for key in family.keys], len(vids))
    count, static = versions.num_rows, versions
    places: npt.NDArray[Any] = vids
    if count > len(vids):  # of many sensors only those that sent something are looked at
        used, places = np.unique(vids, return_inverse=True)
        count, index = len(used), pa.array(used)
        static = {name: versions.column(name).take(index) for key in family.keys for name in columns_of(key)}
    groups, keys = number_groups([evaluate(key, static, count) for key in family.keys], count)
    return groups[places], keys
