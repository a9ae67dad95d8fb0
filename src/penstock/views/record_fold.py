"""Fold a commit record into the answers: matches, results and errors of queries, and facts about whole tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import orjson
import pyarrow as pa
from pyroaring import BitMap

from penstock.catalog.state import CatalogState
from penstock.cycle.commits import CommitRecord
from penstock.cycle.folder import DataFolder
from penstock.errors import PenstockError
from penstock.operators.aggregate.store import SliceStore
from penstock.operators.join.partnered_rows import Blocks
from penstock.operators.join.result_list import JoinResults
from penstock.operators.join.steps.results import from_bytes, read_results
from penstock.operators.join.steps.units import LIVE
from penstock.operators.select.bit_matrix import name_from_bytes
from penstock.operators.select.match_store import MatchStore
from penstock.operators.select.position_lists import lists_from_bytes
from penstock.operators.sparksql.evaluations import KINDS as OF_EVALUATIONS
from penstock.operators.sparksql.evaluations import EvaluationStore
from penstock.views.query_counters import QueryCounters
from penstock.views.query_state import QueryState
from penstock.views.stream_clocks import StreamClocks
from penstock.views.window_index import WindowIndex

_OF_TABLES = frozenset({"newest", "heard", "counts", "sheet", "lists", "slices", "spent"})


class RecordFold(StreamClocks):
    """The part of the answers that reads records."""

    def __init__(self, folder: DataFolder, catalog: Callable[[], CatalogState] | None) -> None:
        super().__init__(catalog)
        self._folder = folder
        self.match_stores: dict[int, MatchStore] = {}
        self.counted = QueryCounters()
        self.slices = SliceStore()
        self.window_index = WindowIndex()
        self.evaluations = EvaluationStore(folder)
        self.touched: set[int] = set()  # queries that the last cycle changed in more than their matches
        self._failed: set[int] = set()  # queries that the last cycle could not do
        self.poisoned: dict[int, str] = {}  # of those, the ones that are to be taken out of the cycles, and why

    def _take_results(self, record: CommitRecord) -> None:
        columns = (c.to_pylist() for c in record.results.columns)
        for row in zip(*columns, strict=True):
            query_id, kind, rows, position, payload = row
            if kind in _OF_TABLES:
                if query_id in self.state.tables_by_id:
                    self._take_of_table(query_id, kind, rows, position, payload, record.end.now_us)
                continue
            if kind in OF_EVALUATIONS:
                self.evaluations.fold(query_id, kind, position, payload, record.cycle)
                continue
            answer = self.answers.get(query_id)
            if answer is None:
                continue
            try:
                self._take_of_query(row, answer, record.cycle)
            except Exception as failure:  # other queries are not affected
                self.poison(query_id, f"its results cannot be taken in: {type(failure).__name__}: {failure}")

    def poison(self, query_id: int, why: str) -> None:
        """A query fails, and is to be taken out of the cycles."""
        self.poisoned[query_id] = why
        self._failed.add(query_id)
        self.touched.add(query_id)
        answer = self.answers.get(query_id)
        if answer is not None:
            answer.error, answer.error_condition = why, "query_quarantined"

    def _take_of_query(self, row: tuple[int, str, int, int, bytes], answer: QueryState, cycle: int) -> None:
        query_id, kind, rows, position, payload = row
        if kind == "match":
            answer.matched += rows
            _merge(answer.matches, position, payload)
        elif kind == "base":
            _merge(answer.base, position, payload)
        elif kind == "join_info":
            if answer.told is None or answer.told[0] != cycle:
                answer.told = (cycle, {})
            answer.told[1][position] = orjson.loads(payload)
        elif kind == "partnered":
            answer.partners.add(cycle, position, BitMap.deserialize(payload))
        elif kind in ("join", "join_file"):
            file = payload.decode() if kind == "join_file" else None
            try:
                table = from_bytes(payload) if file is None else read_results(self._folder, file)
            except PenstockError as damage:
                # No other answer suffers from a file that cannot be read.
                answer.error, answer.error_condition = damage.message, damage.condition
                self.touched.add(query_id)
                return
            _take_join(answer, table, file, position)
        elif kind == "values":
            answer.values.append(pa.ipc.open_stream(payload).read_all())
        elif kind == "error":
            told = orjson.loads(payload)
            answer.error, answer.error_condition = told["message"], told["condition"]
            if answer.error_condition == "query_quarantined":
                self.poisoned[query_id] = told["message"]
            self._failed.add(query_id)
            self.touched.add(query_id)

    def _take_of_table(self, table_id: int, kind: str, rows: int, position: int, payload: bytes, now_us: int) -> None:
        """Fold a row of the record about a table, or about many of its queries at once."""
        if kind == "newest":
            self.window_index.nows.heard(table_id, self._take_newest(table_id, rows, payload, now_us))
        elif kind == "heard":
            vids, times = np.split(np.frombuffer(payload, np.int64), 2)
            self.heard[table_id][vids] = times
        elif kind == "counts":
            self.counted.add(*np.split(np.frombuffer(payload, np.int64), 2))
        elif kind == "sheet":
            self.match_store(table_id).put(name_from_bytes(table_id, position, payload))
        elif kind == "slices":
            try:
                self.slices.fold(payload, rows)
            except Exception as failure:  # of no query that does not use them
                for query_id in self.slices.users_of(payload):
                    self.poison(query_id, f"its slices cannot be taken in: {type(failure).__name__}: {failure}")
        elif kind == "lists":
            self.match_store(table_id).put_lists(lists_from_bytes(position, payload))

    def match_store(self, table_id: int) -> MatchStore:
        if table_id not in self.match_stores:
            self.match_stores[table_id] = MatchStore(self._folder.sheets)
        return self.match_stores[table_id]

    def matched(self, query_id: int) -> int:
        """How many rows have matched a query's predicate since its registration."""
        answer = self.answers.get(query_id)
        return (answer.matched if answer is not None else 0) + self.counted[query_id] + self.slices.matched(query_id)


def _take_join(answer: QueryState, table: pa.Table, file: str | None, generation: int) -> None:
    """Add results of a join: live ones to the present and the coming generation, those of history to the coming one only."""
    if answer.results is not None and generation == LIVE:
        answer.results = answer.results.with_results(table, file)
    if answer.coming is not None and generation in (LIVE, answer.coming.generation):
        answer.coming = answer.coming.with_results(table, file)
    answer.matched = (answer.coming or answer.results or JoinResults(0)).count


def _merge(blocks: Blocks, block: int, payload: bytes) -> None:
    found = BitMap.deserialize(payload)
    if block in blocks:
        blocks[block] |= found
    else:
        blocks[block] = found
