"""One task of a cycle, in a Spark worker: new rows against all queries, old rows against those that fill.

All single-stream select-project queries of a table share one pass. What comes out is small: a bitmap of
positions per query (`match`), newest times per static version (`newest`), counts. See RESULT_SCHEMA.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from penstock.errors import PenstockError
from penstock.operators.newest import newest_by_version
from penstock.pipeline.definitions import Definitions, definitions_at
from penstock.pipeline.folder import DataFolder
from penstock.pipeline.joins.task import JoinTask
from penstock.pipeline.positions import BLOCK_ROWS
from penstock.pipeline.rows import Rows
from penstock.pipeline.said import ResultRow, as_batch, heading, told
from penstock.pipeline.shared_pass import shared_pass
from penstock.pipeline.tasks import CycleTask, Unit


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
