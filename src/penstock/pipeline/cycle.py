"""One task of a cycle, in a Spark worker: new rows against all queries, old rows against those that fill.

All single-stream select-project queries of a table share one pass. What comes out is small: a bitmap of
positions per query (`match`), newest times per static version (`newest`), counts. See RESULT_SCHEMA.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from penstock.catalog.model import POSITION_COLUMN, TIME_COLUMN, VERSION_COLUMN, Table
from penstock.catalog.rows import StaticRows
from penstock.errors import PenstockError, error
from penstock.operators.evaluate import Functions, evaluate
from penstock.operators.expr import calls_user, columns_of
from penstock.operators.newest import newest_by_version
from penstock.operators.predicates import PredicateIndex
from penstock.operators.windows import RowsWindow
from penstock.pipeline.definitions import Definitions, definitions_at
from penstock.pipeline.folder import DataFolder
from penstock.pipeline.joins.task import JoinTask
from penstock.pipeline.positions import BLOCK_ROWS
from penstock.pipeline.readings import flat_columns, slice_schema, stream_fields
from penstock.pipeline.said import ResultRow, as_batch, heading, told
from penstock.pipeline.tasks import CycleTask, Unit
from penstock.sql.plan import SelectPlan, plan_from_json
from penstock.streams.segments import read_slice


def run_task(task: CycleTask) -> Iterator[pa.RecordBatch]:
    """Everything one task has to say, as record batches of RESULT_SCHEMA."""
    rows = heading(task)
    if task.units:
        definitions = definitions_at(task.folder, task.journal)
        for unit in task.units:
            rows.extend(_run_unit(unit, definitions))
    if task.joins:
        rows.extend(_run_joins(task, definitions_at(task.folder, task.journal)))
    _settle_memory()
    yield as_batch(rows)


def _run_joins(task: CycleTask, definitions: Definitions) -> Iterator[ResultRow]:
    joins = JoinTask(DataFolder(Path(task.folder)), definitions, task.join_memory_bytes)
    for unit in task.joins:
        yield from joins.run(unit)
    joins.finish(owns_cleaning=task.cycle is not None)


_tasks_run = 0


def _settle_memory() -> None:
    """Take what the first tasks loaded out of the collector's sight.

    Spark's workers run a full collection after every task; over all that our imports made it took 40 ms a task,
    most of a small cycle. What is loaded once stays for the life of the worker anyway.
    """
    global _tasks_run
    _tasks_run += 1
    if _tasks_run <= 2:
        gc.collect()
        gc.freeze()


def _run_unit(unit: Unit, definitions: Definitions) -> Iterator[ResultRow]:
    table = definitions.state.tables_by_id[unit.table_id]
    filling = frozenset(q for q, _, _ in unit.spans) if unit.kind == "fill" else None
    shared = shared_pass(definitions, table, filling)
    try:
        batch = Rows.read(unit, table, shared.columns, definitions.state.rows(table.id))
    except PenstockError as damage:
        # Nobody can say what these rows would have been: the table's queries fail, other tables go on.
        for query_id in shared.plans:
            yield query_id, "error", 0, unit.first, told(damage)
        return
    block = unit.first // BLOCK_ROWS * BLOCK_ROWS
    if unit.kind == "live":
        yield from _newest(batch, table.id)
    spans = {q: (first - unit.first, end - unit.first) for q, first, end in unit.spans}
    for key, found in shared.match(batch):
        if isinstance(found, PenstockError):
            yield key.query_id, "error", 0, unit.first, told(found)
            continue
        if key.query_id in spans:
            found = found & BitMap(range(*spans[key.query_id]))
        if not found:
            continue
        values = shared.values(key.query_id, batch, found) if key.kind == "match" else None
        if isinstance(values, PenstockError):
            yield key.query_id, "error", 0, unit.first, told(values)
            continue
        if values is not None:
            yield key.query_id, "values", len(found), unit.first, values
        moved = found.shift(unit.first - block)
        moved.run_optimize()
        yield key.query_id, key.kind, len(moved), block, moved.serialize()


def _newest(batch: Rows, table_id: int) -> Iterator[ResultRow]:
    if batch.count:
        vids, times = newest_by_version(batch.vids, batch.times)
        payload = np.asarray(vids, np.int64).tobytes() + np.asarray(times, np.int64).tobytes()
        yield table_id, "newest", batch.count, batch.first, payload


@dataclass(frozen=True, slots=True)
class Rows:
    """A unit's rows in memory: the columns that some query asks for, by flat name."""

    first: int
    count: int
    vids: np.ndarray[Any, np.dtype[np.int32]]
    times: np.ndarray[Any, np.dtype[np.int64]]
    columns: dict[str, pa.Array]
    static: StaticRows

    @classmethod
    def read(cls, unit: Unit, table: Table, wanted: set[str], static: StaticRows) -> Rows:
        schema = slice_schema(stream_fields(table, wanted))
        log = pa.concat_tables([read_slice(s, schema=schema) for s in unit.slices] or [schema.empty_table()])
        if log.num_rows != unit.end - unit.first:
            raise error(
                "corrupt_segment", segment=f"{table.id}/{unit.first:016d}-{unit.end:016d}", detail="a file is missing"
            )
        vids = log.column(VERSION_COLUMN.name).to_numpy()
        columns = flat_columns(table, wanted, log, vids, static)
        times = columns[TIME_COLUMN].cast(pa.int64()).to_numpy()
        return cls(unit.first, log.num_rows, vids, times, columns, static)


@dataclass(frozen=True, slots=True)
class Key:
    """What a bitmap stands for: a query's answer (`match`), or the rows its rows window counts (`base`)."""

    query_id: int
    kind: str


class SharedPass:
    """Standing select-project queries of one table, ready to meet rows."""

    def __init__(self, plans: Mapping[int, SelectPlan], functions: Functions) -> None:
        self.plans = plans
        self._functions = functions
        self.columns: set[str] = set()
        self._keys: dict[int, Key] = {}
        self._index = PredicateIndex()
        self._alone: dict[int, PredicateIndex] = {}
        for query_id, plan in plans.items():
            self._keys[query_id] = Key(query_id, "match")
            predicate = plan.stream_predicate
            if predicate is not None:
                self.columns |= columns_of(predicate)
            if predicate is not None and calls_user(predicate):
                # A user's function may fail: alone, it harms no other query.
                self._alone[query_id] = PredicateIndex([(query_id, plan.static_predicate, predicate)], functions)
            else:
                self._index.add(query_id, plan.static_predicate, predicate)
            if isinstance(plan.window, RowsWindow) and plan.static_predicate is not None:
                self._keys[-query_id] = Key(query_id, "base")
                self._index.add(-query_id, plan.static_predicate, None)
            for output in plan.outputs:
                if calls_user(output.expr):
                    self.columns |= columns_of(output.expr)

    def match(self, batch: Rows) -> Iterator[tuple[Key, BitMap | PenstockError]]:
        """Every query with rows in the batch, with their offsets. Bitmaps may be shared: read only."""
        versions = batch.static.versions()
        for number, found in self._index.match(batch.columns, batch.vids, versions):
            yield self._keys[number], found
        for query_id, index in self._alone.items():
            try:
                for number, found in index.match(batch.columns, batch.vids, versions):
                    yield self._keys[number], found
            except PenstockError as failure:
                yield self._keys[query_id], failure

    def values(self, query_id: int, batch: Rows, found: BitMap) -> bytes | PenstockError | None:
        """Output columns that call user functions, computed here because such code never runs in the server."""
        outputs = [o for o in self.plans[query_id].outputs if calls_user(o.expr)]
        if not outputs:
            return None
        chosen = pa.array(np.asarray(found, np.int64))
        columns = {name: column.take(chosen) for name, column in batch.columns.items()}
        try:
            arrays = [evaluate(o.expr, columns, len(chosen), self._functions) for o in outputs]
        except PenstockError as failure:
            return failure
        positions = pa.array(np.asarray(found, np.int64) + batch.first)
        result = pa.table([positions, *arrays], [POSITION_COLUMN.name, *(o.name for o in outputs)])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, result.schema) as writer:
            writer.write_table(result)
        return bytes(sink.getvalue())


_PASSES: dict[tuple[int, int, frozenset[int] | None], tuple[object, SharedPass]] = {}


def shared_pass(definitions: Definitions, table: Table, only: frozenset[int] | None) -> SharedPass:
    """The shared pass of a table, built again only when its set of queries changed. `only`: for a fill."""
    state = definitions.state
    running = [
        q
        for q, d in state.queries_by_id.items()
        if not d.paused and table.name in d.reads_tables and (only is None or q in only)
    ]
    mark = (table, len(state.functions), tuple((q, state.query_positions[q][1]) for q in running))
    known = _PASSES.get((id(definitions), table.id, only))
    if known is None or known[0] != mark:
        plans = {q: plan_from_json(state.queries_by_id[q].plan) for q in running}
        mine = {q: p for q, p in plans.items() if isinstance(p, SelectPlan) and p.table_id == table.id}
        known = (mark, SharedPass(mine, definitions.functions()))
        if only is not None:
            for stale in [k for k in _PASSES if k[2] is not None]:
                del _PASSES[stale]
        _PASSES[(id(definitions), table.id, only)] = known
    return known[1]
