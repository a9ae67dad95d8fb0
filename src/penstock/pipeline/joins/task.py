"""One part of the join steps of a cycle, in a Spark worker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import orjson
from pyroaring import BitMap

from penstock.errors import PenstockError
from penstock.operators.joins.keys import Ints
from penstock.operators.joins.runs import Run
from penstock.operators.joins.step import join_step
from penstock.pipeline.definitions import Definitions
from penstock.pipeline.folder import DataFolder
from penstock.pipeline.joins.buffers import BufferFolder, forget_removed, newest_time, remove_unused
from penstock.pipeline.joins.prepared import PreparedJoin, Stream, prepare
from penstock.pipeline.joins.results import packed, result_table
from penstock.pipeline.joins.rows import LogReader, StreamRows, read_run
from penstock.pipeline.joins.units import JoinUnit, TableStep
from penstock.pipeline.positions import BLOCK_ROWS
from penstock.pipeline.said import ResultRow
from penstock.sql.plan import JoinPlan, plan_from_json


class JoinTask:
    """The join units of one Spark task: they share what is read and the buffers."""

    def __init__(self, folder: DataFolder, definitions: Definitions, memory_bytes: int) -> None:
        self._folder = folder
        self._root = folder.buffers
        self._definitions = definitions
        self._memory_bytes = memory_bytes
        self._reader = LogReader(folder.log, definitions)
        self._fresh: dict[tuple[str, int, int, int], Run] = {}
        self._used: dict[BufferFolder, tuple[int, int]] = {}

    def run(self, unit: JoinUnit) -> Iterator[ResultRow]:
        for query_id in unit.queries:
            join = prepared_join(self._definitions, query_id)
            try:
                yield from self._run_query(query_id, join, unit)
            except PenstockError as failure:
                told = orjson.dumps({"condition": failure.condition, "message": failure.message})
                yield query_id, "error", 0, 0, told

    def _run_query(self, query_id: int, join: PreparedJoin, unit: JoinUnit) -> Iterator[ResultRow]:
        rows = [self._rows(stream, join.keyed, unit) for stream in join.streams]
        functions = self._definitions.functions()
        found = list(join_step(join.join, rows, functions))
        if join.plan.missing != "inner":
            yield from bitmaps(query_id, "partnered", [c.pos[0] for c in found])
            if unit.part == 0:
                yield from bitmaps(query_id, "match", self._first_rows(join, unit))
        if join.plan.missing != "anti":
            tables = [result_table(join, c, functions) for c in found]
            for kind, count, payload in packed(self._folder, query_id, tables):
                yield query_id, kind, count, unit.generation, payload
        if join.keyed or unit.part == 0:
            self._publish(join, rows)

    def _rows(self, stream: Stream, keyed: bool, unit: JoinUnit) -> StreamRows:
        """A stream's rows for this unit. Without a key all parts have the same buffers and share out the new rows."""
        part, parts = (unit.part, unit.parts) if keyed else (0, 1)
        step = unit.tables[stream.table_id]
        name = stream.signature(self._definitions.state.functions)
        key = (name, part, step.start, step.end)
        if key not in self._fresh:
            self._fresh[key] = (
                read_run(self._reader, stream, step.slices, part, parts) if step.slices else _no_rows(step)
            )
        fresh = self._fresh[key]
        starts = fresh
        if not keyed and unit.parts > 1:
            edges = [len(fresh) * p // unit.parts for p in (unit.part, unit.part + 1)]
            starts = fresh.take(np.arange(*edges, dtype=np.int64))
        folder = BufferFolder(self._root / name / f"{part}-of-{parts}")
        return StreamRows(stream, self._reader, folder, step.first, step.start, step.end, fresh, starts, part, parts)

    def _first_rows(self, join: PreparedJoin, unit: JoinUnit) -> list[Ints]:
        """New rows of the first input, also those that no key can match: whoever has no partner is an answer."""
        alone = replace(join.streams[0], keys=(), columns=())
        return [self._reader.read(alone, piece).pos for piece in unit.tables[alone.table_id].slices]

    def _publish(self, join: PreparedJoin, rows: list[StreamRows]) -> None:
        """Leave buffers for the next step. All of it is soft: a full memory costs time, not results."""
        reach = join.reach()
        newest = [newest_time([*r.kept, r.fresh]) for r in rows]
        latest = max((t for t in newest if t is not None), default=0)
        # A stream that lags by more than its window is served from the log when it speaks again.
        behind = min((t for t in newest if t is not None and t >= latest - reach), default=latest)
        with contextlib.suppress(OSError):
            for r in rows:
                for run in (*r.read_back(), r.fresh):
                    if run.first < run.end and (len(run) == 0 or run.max_ts >= behind - reach):
                        r.folder.publish(run)
                keep_from, start = self._used.get(r.folder, (behind - reach, r.start))
                self._used[r.folder] = (min(keep_from, behind - reach), min(start, r.start))

    def finish(self, owns_cleaning: bool) -> None:
        """After all units: drop what time has passed, keep to the memory that is allowed."""
        with contextlib.suppress(OSError):
            for folder, (keep_from, start) in self._used.items():
                folder.tidy(keep_from, start)
            room = self._memory_bytes
            for folder in self._used:
                room = folder.shrink(room)
            if owns_cleaning:
                remove_unused(self._root, _names_in_use(self._definitions))
            forget_removed()


def _no_rows(step: TableStep) -> Run:
    empty = np.empty(0, np.int64)
    return Run(step.start, step.end, empty, empty)


def bitmaps(query_id: int, kind: str, positions: Sequence[Ints]) -> Iterator[ResultRow]:
    """Positions as the commit record holds them, one bitmap per block."""
    blocks: dict[int, BitMap] = {}
    for some in positions:
        for block in np.unique(some // BLOCK_ROWS * BLOCK_ROWS):
            inside = some[some // BLOCK_ROWS * BLOCK_ROWS == block] - block
            blocks.setdefault(int(block), BitMap()).update(inside.astype(np.uint32))
    for block, found in blocks.items():
        found.run_optimize()
        yield query_id, kind, len(found), block, found.serialize()


_PREPARED: dict[tuple[int, int, int], PreparedJoin] = {}


def prepared_join(definitions: Definitions, query_id: int) -> PreparedJoin:
    """A query's join, prepared once for as long as its definition stands."""
    key = (id(definitions), query_id, definitions.state.query_positions[query_id][1])
    if key not in _PREPARED:
        for stale in [k for k in _PREPARED if k[1] == query_id or k[0] != id(definitions)]:
            del _PREPARED[stale]
        plan = plan_from_json(definitions.state.queries_by_id[query_id].plan)
        assert isinstance(plan, JoinPlan)
        _PREPARED[key] = prepare(plan)
    return _PREPARED[key]


def _names_in_use(definitions: Definitions) -> set[str]:
    state = definitions.state
    return {
        stream.signature(state.functions)
        for q, d in state.queries_by_id.items()
        if not d.paused and d.plan["kind"] == "join"
        for stream in prepared_join(definitions, q).streams
    }
