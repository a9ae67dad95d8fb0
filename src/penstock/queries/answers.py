"""Answers of the kernels: commit records folded into bitmaps of log positions, for joins into lists of results.

A fold is a pure function of the journal and the records, so a restart, `as_of` and a test get the same answers.
Nothing here evaluates a predicate on a reading: workers did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pyroaring import BitMap

from penstock.catalog.journal import JournalReader
from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.operators.evaluate import evaluate_static
from penstock.operators.expr import Expr
from penstock.operators.windows import FOREVER, AnyWindow, JoinWindows, TimeWindow
from penstock.operators.windows import any_from_json as window_from_json
from penstock.operators.windows import to_json as window_to_json
from penstock.pipeline.commits import RESULT_SCHEMA, CommitRecord
from penstock.pipeline.folder import DataFolder
from penstock.pipeline.joins.results import from_bytes, read_results
from penstock.pipeline.joins.units import LIVE
from penstock.pipeline.offset import Offset
from penstock.pipeline.positions import BLOCK_ROWS
from penstock.queries.join_results import JoinResults, results_from_json, results_to_json
from penstock.queries.partners import Blocks, Partners
from penstock.sql.plan import JoinPlan, SelectPlan, SparkPlan, kernel_of, plan_from_json, stream_uses, window_of

NEVER = -(2**62)
MASKS_KEPT = 256


@dataclass(slots=True)
class Answer:
    """One query's matches. `window` is what invocations see; a changed one waits in `pending` for its history."""

    plan: SelectPlan | JoinPlan
    start_us: int | None
    window: AnyWindow
    pending: AnyWindow | None = None
    matches: Blocks = field(default_factory=dict)
    base: Blocks = field(default_factory=dict)
    values: list[pa.Table] = field(default_factory=list)
    partners: Partners = field(default_factory=Partners)
    results: JoinResults | None = None
    told: tuple[int, dict[int, dict[str, Any]]] | None = None  # what the parts of a join's last step say of themselves
    earlier: JoinResults | None = None  # what was the answer at older cycles that are still kept
    coming: JoinResults | None = None  # of a join that reads its history: they take over once it is done
    now_us: int | None = None  # of a join: the furthest that any committed cycle has come
    filling: tuple[int, int] | None = None
    filled_before: bool = False
    fill_first: int = 0
    matched: int = 0
    error: str | None = None
    error_condition: str = "function_failed"
    paused: bool = False

    @property
    def progress(self) -> float:
        """How much of its history a filling query has read."""
        if self.filling is None:
            return 1.0
        position, target = self.filling
        return (position - self.fill_first) / max(1, target - self.fill_first)

    @property
    def ready(self) -> bool:
        return self.filling is None or self.filled_before

    @property
    def answers(self) -> bool:
        """Whether an invocation gets an answer."""
        return self.ready and not self.paused and self.error is None

    @property
    def settled(self) -> bool:
        """Whether everything that its plan asks of the log up to the last cycle has been read."""
        return self.filling is None and not self.paused


class AnswerStore:
    """All answers as of one committed cycle, with the definitions and the newest times that go with it."""

    def __init__(self, reader: JournalReader, folder: DataFolder) -> None:
        self._reader = reader
        self._folder = folder
        self.state = CatalogState()
        self.answers: dict[int, Answer] = {}
        self.spark_plans: dict[int, SparkPlan] = {}  # of the queries outside the shared pass
        self.newest: dict[int, np.ndarray[Any, np.dtype[np.int64]]] = {}
        self.heard: dict[int, np.ndarray[Any, np.dtype[np.int64]]] = {}  # NOW of the cycle that brought the newest
        self.rows: dict[int, int] = {}
        self.cycle = 0
        self.start: Offset | None = None
        self.offset: Offset | None = None
        self._masks: dict[tuple[int, Expr], np.ndarray[Any, np.dtype[np.bool_]]] = {}

    def apply(self, record: CommitRecord) -> None:
        """Take in one more cycle (or a snapshot, as the first)."""
        before = self.state.position
        self.state.apply_many(self._reader.read(upto=record.end.journal))
        self._follow_definitions(before, record)
        self._take_results(record)
        if record.info.get("snapshot"):
            self._restore(record.info["snapshot"])
        for query_id, answer in self.answers.items():
            answer.filling = _filling(record.end, query_id)
            if answer.filling is None and not answer.paused:
                answer.filled_before = True
                if answer.coming is not None:
                    answer.earlier, answer.results, answer.coming = answer.results, answer.coming, None
                if answer.pending is not None:
                    answer.window, answer.pending = answer.pending, None
        self.cycle, self.start, self.offset = record.cycle, record.start, record.end
        for answer in self.answers.values():
            if isinstance(answer.plan, JoinPlan):
                answer.now_us = self._latest_now(answer)

    def _follow_definitions(self, before: int, record: CommitRecord) -> None:
        for query_id in [q for q in self.answers if q not in self.state.queries_by_id]:
            del self.answers[query_id]
        for table_id in [t for t in self.newest if t not in self.state.tables_by_id]:
            del self.newest[table_id], self.heard[table_id], self.rows[table_id]
        if any(t not in self.state.tables_by_id for t, _ in self._masks):
            self._masks.clear()
        for query_id in [q for q in self.spark_plans if q not in self.state.queries_by_id]:
            del self.spark_plans[query_id]
        for query_id, definition in self.state.queries_by_id.items():
            if self.state.query_positions[query_id][1] <= before:
                continue
            whole = plan_from_json(definition.plan)
            self.spark_plans.pop(query_id, None)
            if isinstance(whole, SparkPlan):
                self.spark_plans[query_id] = whole
            plan = kernel_of(whole)
            if plan is None:
                self.answers.pop(query_id, None)
                continue
            known = self.answers.get(query_id)
            if known is None:
                known = Answer(plan, definition.start_us, window_of(plan))
                self.answers[query_id] = known
            else:
                known.pending = window_of(plan) if window_of(plan) != known.window else None
            if isinstance(plan, JoinPlan):
                known.coming = JoinResults(self.state.query_positions[query_id][1])
                known.results = known.results or JoinResults(0)
            if (known.paused and not definition.paused) or known.error is not None:
                known.filled_before = False  # what came in between, or failed, is read now, as history
            known.paused = definition.paused
            known.plan, known.error = plan, None
            known.fill_first = (_filling(record.end, query_id) or (0, 0))[0]

    def _take_results(self, record: CommitRecord) -> None:
        columns = (c.to_pylist() for c in record.results.columns)
        for query_id, kind, rows, position, payload in zip(*columns, strict=True):
            if kind == "newest":
                self._take_newest(query_id, rows, payload, record.end.now_us)
                continue
            if kind == "heard":
                vids, times = np.split(np.frombuffer(payload, np.int64), 2)
                self.heard[query_id][vids] = times
                continue
            answer = self.answers.get(query_id)
            if answer is None:
                continue
            if kind == "match":
                answer.matched += rows
                _merge(answer.matches, position, payload)
            elif kind == "base":
                _merge(answer.base, position, payload)
            elif kind == "join_info":
                if answer.told is None or answer.told[0] != record.cycle:
                    answer.told = (record.cycle, {})
                answer.told[1][position] = orjson.loads(payload)
            elif kind == "partnered":
                answer.partners.add(record.cycle, position, BitMap.deserialize(payload))
            elif kind in ("join", "join_file"):
                file = payload.decode() if kind == "join_file" else None
                try:
                    table = from_bytes(payload) if file is None else read_results(self._folder, file)
                except (OSError, pa.ArrowException) as damage:
                    # Nobody else's answer suffers from a file that cannot be read.
                    answer.error, answer.error_condition = f"results {file}: {damage}", "corrupt_segment"
                    continue
                _take_join(answer, table, file, position)
            elif kind == "values":
                answer.values.append(pa.ipc.open_stream(payload).read_all())
            elif kind == "error":
                told = orjson.loads(payload)
                answer.error, answer.error_condition = told["message"], told["condition"]

    def _take_newest(self, table_id: int, rows: int, payload: bytes, now_us: int) -> None:
        vids, times = np.split(np.frombuffer(payload, np.int64), 2)
        size = int(vids.max()) + 1 if len(vids) else 0
        newest = _grown(self.newest.get(table_id), size)
        newest[vids] = np.maximum(newest[vids], times)
        heard = _grown(self.heard.get(table_id), size)
        heard[vids] = np.maximum(heard[vids], now_us)
        self.newest[table_id], self.heard[table_id] = newest, heard
        self.rows[table_id] = self.rows.get(table_id, 0) + rows

    def now_of(self, table: Table, static_predicate: Expr | None) -> int | None:
        """NOW of a stream: the cycle's for transaction time, the newest passing reading's for valid time."""
        if self.offset is None:
            return None
        if table.options.time == "transaction":
            return self.offset.now_us
        newest = self.newest.get(table.id)
        if newest is None:
            return None
        if static_predicate is not None:
            mask = self.passing(table.id, static_predicate)
            newest = newest[: len(mask)][mask[: len(newest)]]
        latest = int(newest.max(initial=NEVER))
        return latest if latest > NEVER else None

    def passing(self, table_id: int, predicate: Expr) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which static versions a predicate lets through, by vid."""
        known = self._masks.get((table_id, predicate))
        versions = self.state.rows(table_id)
        if known is None or len(known) < versions.count:
            known = evaluate_static(predicate, versions.versions())
            if len(self._masks) >= max(MASKS_KEPT, 2 * len(self.answers)):
                self._masks.clear()  # questions that are asked once leave one each; those that stay make theirs again
            self._masks[(table_id, predicate)] = known
        return known

    def heard_sids(self, table_id: int, predicate: Expr | None) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Which sensors have had a reading whose static version passes."""
        vids = np.flatnonzero(self.newest.get(table_id, np.empty(0, np.int64)) > NEVER)
        if predicate is not None:
            vids = vids[self.passing(table_id, predicate)[vids]]
        return np.unique(self.state.rows(table_id).sids[vids])

    def is_idle(self, table: Table, static_predicate: Expr | None) -> bool:
        """Whether every sensor of a stream has ended, or was not heard for the idle time before the cycle's NOW."""
        heard = self.heard.get(table.id)
        if heard is None or self.offset is None:
            return False
        ended = self.state.ended(table.id)
        if ended:
            sids = self.state.rows(table.id).sids[: len(heard)]
            heard = np.where(np.isin(sids, list(ended)), NEVER, heard[: len(sids)])
        if static_predicate is not None:
            mask = self.passing(table.id, static_predicate)
            heard = heard[: len(mask)][mask[: len(heard)]]
        return self.offset.now_us - int(heard.max(initial=NEVER)) > table.options.idle_us

    def query_now(self, answer: Answer) -> int | None:
        if isinstance(answer.plan, JoinPlan):
            return answer.now_us
        return self.now_of_streams([(answer.plan.table_id, answer.plan.static_predicate)])

    def _latest_now(self, answer: Answer) -> int | None:
        """A stream that was idle and speaks again must not take back what was said meanwhile: NOW never steps back."""
        now_us = self.now_of_streams([(u.table_id, u.static_predicate) for u in stream_uses(answer.plan)])
        known = [n for n in (answer.now_us, now_us) if n is not None]
        return max(known) if known else None

    def now_of_streams(self, streams: Sequence[tuple[int, Expr | None]]) -> int | None:
        """NOW of a query: the smallest over its streams; those that are idle do not hold it back."""
        uses = [(self.state.tables_by_id[table_id], predicate) for table_id, predicate in streams]
        nows = [self.now_of(*u) for u in uses]
        known = [n for n in nows if n is not None]
        if len(known) < len(nows):
            return None
        if len(known) == 1:
            return known[0]
        awake = [n for n, u in zip(known, uses, strict=True) if not self.is_idle(*u)]
        return min(awake) if awake else max(known)

    def trim_joins(self, keep_from: dict[int, int], oldest_cycle: int) -> None:
        """Forget results before a time, per query, those whose readings are gone, and what tells older cycles apart."""
        for query_id, answer in self.answers.items():
            answer.partners.forget(oldest_cycle)
            if answer.results is None or not isinstance(answer.plan, JoinPlan):
                continue
            floors = [self.state.retention(i.table_id) for i in answer.plan.inputs]
            answer.results = answer.results.without(keep_from.get(query_id, NEVER), floors)

    def trim(self, keep_from: dict[int, int]) -> None:
        """Forget matches below a position, per query: no window can reach them again."""
        for query_id, position in keep_from.items():
            answer = self.answers.get(query_id)
            if answer is not None:
                _cut_below(answer.matches, position)
                _cut_below(answer.partners.blocks, position)
                _cut_below(answer.base, position)
                answer.values = [t for t in answer.values if t.num_rows and t.column("_pos")[-1].as_py() >= position]

    def to_snapshot(self) -> CommitRecord:
        """Everything in one record that `apply` takes as the first."""
        assert self.offset is not None
        rows: list[tuple[int, str, int, int, bytes]] = []
        details: dict[str, Any] = {}
        for query_id, answer in self.answers.items():
            for kind, blocks in (
                ("match", answer.matches),
                ("base", answer.base),
                ("partnered", answer.partners.blocks),
            ):
                rows += [(query_id, kind, 0, block, found.serialize()) for block, found in blocks.items()]
            for table in answer.values:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
                rows.append((query_id, "values", 0, 0, bytes(sink.getvalue())))
            details[str(query_id)] = {
                "window": window_to_json(answer.window),
                "matched": answer.matched,
                "fill_first": answer.fill_first,
                "filled_before": answer.filled_before,
                "error": answer.error,
                "error_condition": answer.error_condition,
                "paused": answer.paused,
                "results": results_to_json(answer.results),
                "coming": results_to_json(answer.coming),
                "now_us": answer.now_us,
            }
        for table_id, newest in self.newest.items():
            vids = np.flatnonzero(newest > NEVER)
            payload = vids.astype(np.int64).tobytes() + newest[vids].tobytes()
            rows.append((table_id, "newest", self.rows.get(table_id, 0), 0, payload))
            heard = self.heard[table_id][vids]
            rows.append((table_id, "heard", 0, 0, vids.astype(np.int64).tobytes() + heard.tobytes()))
        columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[] for _ in RESULT_SCHEMA]
        results = pa.table([pa.array(c, f.type) for c, f in zip(columns, RESULT_SCHEMA, strict=True)], RESULT_SCHEMA)
        start = self.start or self.offset
        return CommitRecord(self.cycle, start, self.offset, results, {"snapshot": details})

    def _restore(self, details: dict[str, Any]) -> None:
        for query_id, answer in self.answers.items():
            kept = details.get(str(query_id))
            if kept is None:
                continue
            window = window_from_json(kept["window"])
            answer.pending = window_of(answer.plan) if window != window_of(answer.plan) else None
            if isinstance(answer.plan, JoinPlan):
                try:
                    answer.results = results_from_json(kept["results"], self._folder)
                    answer.coming = results_from_json(kept["coming"], self._folder)
                except (OSError, pa.ArrowException) as damage:
                    answer.results, answer.coming = JoinResults(0), None
                    kept = {**kept, "error": f"results: {damage}", "error_condition": "corrupt_segment"}
            answer.window = window
            answer.matched, answer.fill_first = kept["matched"], kept["fill_first"]
            answer.filled_before, answer.error = kept["filled_before"], kept["error"]
            answer.paused, answer.error_condition = kept["paused"], kept["error_condition"]
            answer.now_us = kept.get("now_us")


def _filling(end: Offset, query_id: int) -> tuple[int, int] | None:
    """How far a query has read its history, and how far it has to; in rows, over all its tables."""
    by_table = end.join_fill.get(query_id)
    if by_table is None:
        return end.fill.get(query_id)
    return sum(first for first, _ in by_table.values()), sum(target for _, target in by_table.values())


def _take_join(answer: Answer, table: pa.Table, file: str | None, generation: int) -> None:
    """Live results belong to whoever answers now and to whoever will; those of history to the latter alone."""
    if answer.results is not None and generation == LIVE:
        answer.results = answer.results.with_results(table, file)
    if answer.coming is not None and generation in (LIVE, answer.coming.generation):
        answer.coming = answer.coming.with_results(table, file)
    answer.matched = (answer.coming or answer.results or JoinResults(0)).count


def _grown(known: np.ndarray[Any, np.dtype[np.int64]] | None, size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A copy with room for `size` versions: readers keep the array they have."""
    if known is None:
        return np.full(size + 64, NEVER)
    return np.concatenate([known, np.full(max(0, size - len(known)), NEVER)])


def is_finished(window: AnyWindow, now_us: int | None, start_us: int | None) -> bool:
    """Whether a window that closes for good has closed; one of a join's is enough."""
    if isinstance(window, JoinWindows):
        return any(is_finished(w, now_us, start_us) for w in window.by_input)
    if not isinstance(window, TimeWindow) or not window.ends or now_us is None:
        return False
    return now_us > window.end.resolve(now_us, start_us if start_us is not None else FOREVER)


def _merge(blocks: Blocks, block: int, payload: bytes) -> None:
    found = BitMap.deserialize(payload)
    if block in blocks:
        blocks[block] |= found
    else:
        blocks[block] = found


def _cut_below(blocks: Blocks, position: int) -> None:
    for block in list(blocks):
        if block + BLOCK_ROWS <= position:
            del blocks[block]
        elif block < position:
            blocks[block].remove_range(0, position - block)
            if not blocks[block]:
                del blocks[block]


def window_low(window: AnyWindow, now_us: int | None, start_us: int | None) -> int | None:
    """Where a time window begins; None where nothing bounds it yet."""
    if isinstance(window, JoinWindows):
        lows = [window_low(w, now_us, start_us) for w in window.by_input]
        return None if None in lows else min(low for low in lows if low is not None)
    if not isinstance(window, TimeWindow) or now_us is None:
        return None
    return window.begin.resolve(now_us, start_us if start_us is not None else NEVER)
