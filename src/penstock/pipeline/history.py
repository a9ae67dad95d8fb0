"""Batch reads of the log and of static rows, as Spark SQL sees them.

A relation of a SparkPlan becomes one fresh DataFrame of this reader (a DataFrame used twice would keep the
other use's pruning). Time and static predicates come as options, so that only files and rows that can
matter are read; the SQL text still holds them. Rows that are too many to be in memory at once come in files (`InputFiles`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.catalog.histories import journal_of
from penstock.catalog.model import POSITION_COLUMN, SENSOR_COLUMN, TIME_COLUMN, VERSION_COLUMN, Table
from penstock.cycle.definitions import Definitions, definitions_since
from penstock.cycle.log_batch import flat_columns, slice_schema, stream_fields
from penstock.errors import PenstockError, error
from penstock.expr.evaluate import evaluate, evaluate_mask, evaluate_static_of
from penstock.expr.expression import columns_of, from_json
from penstock.expr.windows import FOREVER
from penstock.sql.plan import SelectPlan, plan_from_json
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Slice, list_whole, slices
from penstock.types import BIGINT, Field

JOURNAL_COLUMN = Field("_journal", BIGINT)
BORN_COLUMN = Field("_born", BIGINT)
DIED_COLUMN = Field("_died", BIGINT)
ALIVE = 2**62
HIDDEN_OF_STREAM = (POSITION_COLUMN, SENSOR_COLUMN, VERSION_COLUMN, JOURNAL_COLUMN)
HIDDEN_OF_ORDINARY = (BORN_COLUMN, DIED_COLUMN)
BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """What to read: a table's readings in [first, end), its live static rows, or a query's rows."""

    folder: str
    kind: str  # stream, static, ordinary, query
    table: str
    table_id: int
    journal: int
    columns: tuple[str, ...]
    first: int = 0
    end: int = 0
    low_us: int = -FOREVER
    high_us: int = FOREVER
    static_predicate: dict[str, object] | None = None
    query_plan: dict[str, object] | None = None
    parallelism: int = 2

    def to_option(self) -> str:
        return orjson.dumps(self).decode()


class HistoryReader(DataSourceReader):
    """Reads one relation. Planned in a process of Spark's, read in its workers.

    A partition's value is some of the log's slices, or (none) the static rows.
    """

    def __init__(self, options: dict[str, str]) -> None:
        asked = orjson.loads(options["request"])
        self._request = HistoryRequest(**{**asked, "columns": tuple(asked["columns"])})

    def partitions(self) -> Sequence[InputPartition]:
        request = self._request
        if request.kind in ("static", "ordinary"):
            return [InputPartition(())]
        log = Path(request.folder) / "log"
        if request.end and not (log / str(request.table_id)).is_dir():
            raise _dropped(request)
        segments = list_whole(log, request.table_id, request.first, request.end)
        found = slices(segments, request.first, request.end, request.low_us, request.high_us)
        return _spread(found, request.parallelism) or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        request = self._request
        definitions = definitions_since(request.folder, request.journal)
        table = definitions.state.tables_by_id.get(request.table_id)
        if table is None:
            raise _dropped(request)
        if request.kind in ("static", "ordinary"):
            yield from _static_rows(request, definitions).to_batches(BATCH_ROWS)
            return
        for piece in partition.value:
            try:
                rows = read_readings(request, table, definitions, piece)
            except PenstockError as problem:
                if piece.path.parent.is_dir():
                    raise
                # The definitions here are older than the drop; the files are gone all the same.
                raise _dropped(request) from problem
            yield from rows.to_batches(BATCH_ROWS)


def _dropped(request: HistoryRequest) -> PenstockError:
    return error("table_not_found", table=request.table)


def _spread(found: list[Slice], parallelism: int) -> list[InputPartition]:
    """About equal numbers of rows per task, in log order."""
    total = sum(s.rows for s in found)
    size = max(100_000, -(-total // max(1, parallelism * 2)))
    tasks: list[list[Slice]] = []
    room = 0
    for piece in found:
        if not tasks or room <= 0:
            tasks.append([])
            room = size
        tasks[-1].append(piece)
        room -= piece.rows
    return [InputPartition(tuple(t)) for t in tasks]


def _static_rows(request: HistoryRequest, definitions: Definitions) -> pa.Table:
    """Static rows as they stood at the request's journal position."""
    versions = definitions.state.rows(request.table_id).versions()
    there = pc.less_equal(versions.column("_born"), request.journal)
    died = versions.column("_died")
    later = pc.greater(died, request.journal)
    if request.kind == "static":
        there = pc.and_(there, later)
    position = versions.schema.get_field_index("_died")
    versions = versions.set_column(position, "_died", pc.if_else(later, pa.scalar(ALIVE, pa.int64()), died))
    return versions.filter(there).select(list(request.columns))


def read_readings(request: HistoryRequest, table: Table, definitions: Definitions, piece: Slice) -> pa.Table:
    """One slice's readings inside the time range and with a static version that passes, with their flat columns."""
    static = definitions.state.rows(table.id)
    plan = plan_from_json(request.query_plan).selection if request.query_plan is not None else None
    wanted = set(request.columns)
    if plan is not None:
        wanted = {TIME_COLUMN}.union(*(columns_of(o.expr) for o in plan.outputs))
        if plan.stream_predicate is not None:
            wanted |= columns_of(plan.stream_predicate)
    fields = stream_fields(table, wanted)
    log = read_slice(piece, schema=slice_schema(fields))
    vids = log.column(VERSION_COLUMN.name).to_numpy()
    times = log.column(TIME_COLUMN).cast(pa.int64()).to_numpy()
    keep = (times >= request.low_us) & (times <= request.high_us)
    predicates = [from_json(request.static_predicate)] if request.static_predicate else []
    if plan is not None and plan.static_predicate is not None:
        predicates.append(plan.static_predicate)
    for predicate in predicates:
        keep &= evaluate_static_of(predicate, static.versions(), vids)
    chosen = np.flatnonzero(keep)
    if len(chosen) < len(keep):
        log, vids = log.take(pa.array(chosen)), vids[chosen]
    positions = chosen + piece.first
    columns = flat_columns(table, wanted, log, vids, static)
    columns[POSITION_COLUMN.name] = pa.array(positions, pa.int64())
    columns[VERSION_COLUMN.name] = pa.array(vids, pa.int32())
    columns[SENSOR_COLUMN.name] = pa.array(static.sids[vids], pa.int32())
    heads, entries = definitions.state.journal_positions(table.id)
    columns[JOURNAL_COLUMN.name] = pa.array(journal_of(positions, heads, entries), pa.int64())
    if plan is not None:
        columns = _project(plan, columns, definitions)
    return pa.table([columns[n] for n in request.columns], list(request.columns))


def _project(plan: SelectPlan, columns: dict[str, pa.Array], definitions: Definitions) -> dict[str, pa.Array]:
    """Another query's answer rows: its stream predicate and outputs, with the row's own time and position."""
    functions = definitions.functions()
    count = len(columns[TIME_COLUMN])
    if plan.stream_predicate is not None:
        mask = evaluate_mask(plan.stream_predicate, columns, count, functions)
        columns = {n: c.filter(pa.array(mask)) for n, c in columns.items()}
        count = len(columns[TIME_COLUMN])
    shown = {o.name: evaluate(o.expr, columns, count, functions) for o in plan.outputs}
    hidden = {f.name: columns[f.name] for f in HIDDEN_OF_STREAM}
    return {TIME_COLUMN: columns[TIME_COLUMN], **shown, **hidden}


@dataclass(frozen=True, slots=True)
class InputFiles:
    """A relation as files, each with some of its rows. The files exist for as long as their writer keeps references to them."""

    fields: tuple[Field, ...]
    files: tuple[Path, ...]

    def options(self) -> dict[str, str]:
        """What the data source `penstock` needs to read them."""
        return {
            "schema": ", ".join(f.to_spark() for f in self.fields),
            "files": orjson.dumps([str(f) for f in self.files]).decode(),
        }


def write_handed(path: Path, rows: pa.Table) -> None:
    """Soft: nothing is synced, and after a crash the folder is swept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=BATCH_ROWS)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


class InputFilesReader(DataSourceReader):
    """Reads the files of a relation, one task per file; without any there is one task that reads nothing."""

    def __init__(self, options: dict[str, str]) -> None:
        self._files: list[str] = orjson.loads(options["files"])

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(f) for f in self._files] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:
            with pa.memory_map(partition.value) as source:
                reader = pa.ipc.open_file(source)
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)
