"""The standing select-project queries of one table, kept ready in a worker to meet rows together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from penstock.catalog.model import POSITION_COLUMN, Table
from penstock.errors import PenstockError
from penstock.operators.evaluate import Functions, evaluate
from penstock.operators.expr import calls_user, columns_of
from penstock.operators.matrix import Matrix
from penstock.operators.predicates import PredicateIndex
from penstock.operators.windows import RowsWindow
from penstock.pipeline.definitions import Definitions
from penstock.pipeline.keeping import Keeping, keeping_of
from penstock.pipeline.rows import Rows
from penstock.sql.plan import SelectPlan, plan_from_json


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
        self._keeping: npt.NDArray[np.int8] | None = None
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
        for number, found in self._index.match(batch.columns, batch.vids, batch.static.versions()):
            yield self._keys[number], found
        yield from self.match_alone(batch)

    def matrix(self, batch: Rows) -> Matrix:
        """The answers of all that `match_alone` leaves out, at once."""
        return self._index.match_matrix(batch.columns, batch.vids, batch.static.versions())

    def key(self, number: int) -> Key:
        """Whose a number of the matrix is."""
        return self._keys[number]

    def keeping(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """How long the matches of each number of a matrix have to last."""
        if self._keeping is None or len(self._keeping) != len(numbers):
            kinds = (keeping_of(self.plans[n]) if n > 0 else Keeping.RECORD for n in numbers.tolist())
            self._keeping = np.fromiter(kinds, np.int8, len(numbers))
        return self._keeping

    def __len__(self) -> int:
        return len(self.plans)

    def match_alone(self, batch: Rows) -> Iterator[tuple[Key, BitMap | PenstockError]]:
        """Queries whose predicates call user functions."""
        versions = batch.static.versions()
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
