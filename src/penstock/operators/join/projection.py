"""The rows of a window join's results, from the logs of its inputs and its ordinary tables: in the server, or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, Table
from penstock.catalog.rows import StaticRows
from penstock.cycle.definitions import definitions_since
from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Column, UserCall, columns_of, walk
from penstock.operators.base.answer import Ids
from penstock.operators.base.log_reader import LogReader, LogSource
from penstock.operators.join.result_list import ChosenResults
from penstock.sql.plan import JoinPlan
from penstock.sql.plan.output import schema_of

FetchColumns: TypeAlias = Callable[[int, Ids, set[str]], Mapping[str, pa.Array]]
"""Columns of an input (by its place) at positions, in any order and as often as they are named."""


class RowsMissing(Exception):
    """The log lacks rows that were asked for: retention takes them just now, or a file is lost."""


@dataclass(frozen=True, slots=True)
class ResultProjection:
    """A join's outputs over its results, and over rows of its first input without a partner."""

    plan: JoinPlan
    inputs: Sequence[Table]
    tables: Sequence[StaticRows]  # of the ordinary tables, as the plan lists them
    fetch: FetchColumns

    def results(self, picked: ChosenResults) -> pa.Table:
        by_input = dict(enumerate(picked.positions(len(self.inputs))))
        return self._project(by_input, len(picked.numbers), picked)

    def unmatched(self, positions: Ids) -> pa.Table:
        return self._project({0: positions}, len(positions), None)

    def _project(self, positions: Mapping[int, Ids], count: int, picked: ChosenResults | None) -> pa.Table:
        wanted = set().union(*(columns_of(o.expr) for o in self.plan.outputs))
        columns: dict[str, pa.Array] = {}
        for place, given in enumerate(self.plan.inputs):
            mine = {c.partition(".")[2] for c in wanted if c.partition(".")[0] == given.alias}
            if place in positions:
                found = self.fetch(place, positions[place], mine)
            else:
                types = {c.name: c.type.to_arrow() for c in self.inputs[place].flat_columns()}
                found = {name: pa.nulls(count, types[name]) for name in mine}
            columns |= {f"{given.alias}.{name}": column for name, column in found.items()}
        for place, vids in picked.versions(self.plan).items() if picked is not None else ():
            columns |= self._of_table(place, vids, wanted)
        arrays = []
        for output in self.plan.outputs:
            if picked is not None and any(isinstance(n, UserCall) for n in walk(output.expr)):
                arrays.append(picked.values(output.name).cast(output.type.to_arrow()))
            elif isinstance(output.expr, Column):
                arrays.append(columns[output.expr.name])
            else:
                arrays.append(evaluate(output.expr, columns, count))
        return pa.Table.from_arrays(arrays, schema=schema_of(self.plan.outputs))

    def _of_table(self, place: int, vids: Ids, wanted: set[str]) -> dict[str, pa.Array]:
        """Columns of an ordinary table's rows, in the versions that the results have."""
        alias, versions = self.plan.tables[place].alias, self.tables[place].versions()
        index = pa.array(vids, mask=vids < 0)
        mine = [c.partition(".")[2] for c in wanted if c.partition(".")[0] == alias]
        return {f"{alias}.{name}": versions.column(name).take(index).combine_chunks() for name in mine}


def columns_at(log_reader: LogReader, positions: Ids, wanted: set[str], own: bool = False) -> dict[str, pa.Array]:
    """Columns at positions, each read once. `own`: of rows of the answer. Raises RowsMissing where the log lacks some."""
    unique, back = np.unique(positions, return_inverse=True)
    found = log_reader.columns(wanted | {TIME_COLUMN}, unique, own)
    if len(found[TIME_COLUMN]) < len(unique):
        raise RowsMissing
    index = pa.array(back)
    return {name: column.take(index) for name, column in found.items()}


def projection_in_worker(folder: str, journal: int, plan: JoinPlan) -> ResultProjection:
    """The same in a worker: with the definitions as of a journal position, or later ones."""
    state = definitions_since(folder, journal).state
    readers = [LogSource(folder, each.table_id, journal).open() for each in plan.inputs]
    inputs = [state.tables_by_id[each.table_id] for each in plan.inputs]
    tables = [state.rows(each.table_id) for each in plan.tables]
    return ResultProjection(plan, inputs, tables, lambda place, at, wanted: columns_at(readers[place], at, wanted))
