"""The step of a worker for all standing select-project queries of one table: one shared pass over the rows."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from penstock.catalog.model import POSITION_COLUMN
from penstock.cycle.log_batch import LogBatch
from penstock.errors import PenstockError
from penstock.expr.evaluate import Functions, evaluate
from penstock.expr.expression import Expr, calls_user, columns_of
from penstock.expr.predicate_index import Matrix, PredicateIndex
from penstock.expr.windows import RowsWindow
from penstock.operators.select.durability import Durability, keeping_of
from penstock.sql.plan import Output, SelectPlan


@dataclass(frozen=True, slots=True)
class Key:
    """What a bitmap stands for: a query's answer (`match`), or the rows its rows window counts (`base`)."""

    query_id: int
    kind: str

    @classmethod
    def of(cls, number: int) -> Key:
        """What a number of the index stands for."""
        return cls(abs(number), "match" if number > 0 else "base")


class SelectStep:
    """Evaluates all standing select-project queries of one table over rows."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        # Of a plan nothing else is kept: ten thousand of them were most of what a worker had.
        self._needs: dict[int, frozenset[str]] = {}
        self._computed: dict[int, tuple[Output, ...]] = {}
        self._sharing: dict[frozenset[str], tuple[frozenset[str], int]] = {}  # the one that stands for its equals
        self._columns: Counter[str] = Counter()
        self._index = PredicateIndex(functions=functions)
        self._keeping_of: dict[int, Durability] = {}
        self._keeping: tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]] | None = None

    def __len__(self) -> int:
        return len(self._needs)

    def __contains__(self, query_id: int) -> bool:
        return query_id in self._needs

    def __iter__(self) -> Iterator[int]:
        return iter(self._needs)

    def add(self, query_id: int, plan: SelectPlan) -> None:
        """Put a query in, in place of what it was before."""
        if query_id in self._needs:
            self.remove(query_id)
        computed = tuple(o for o in plan.outputs if calls_user(o.expr))
        if computed:
            self._computed[query_id] = computed
        needs = _columns_of(plan, computed)
        needs, sharing = self._sharing.get(needs, (needs, 0))
        self._needs[query_id], self._sharing[needs] = needs, (needs, sharing + 1)
        if not sharing:
            self._columns.update(needs)
        self._put(query_id, plan.static_predicate, plan.stream_predicate, keeping_of(plan))
        if isinstance(plan.window, RowsWindow) and plan.static_predicate is not None:
            self._put(-query_id, plan.static_predicate, None, Durability.RECORD)

    def _put(self, number: int, static: Expr | None, stream: Expr | None, keeping: Durability) -> None:
        self._keeping_of[number] = keeping
        self._index.add(number, static, stream)

    def remove(self, query_id: int) -> None:
        # What no query needs any more must not be read from the log.
        needs, sharing = self._sharing[self._needs.pop(query_id)]
        if sharing > 1:
            self._sharing[needs] = needs, sharing - 1
        else:
            del self._sharing[needs]
            self._columns -= Counter(needs)
        self._computed.pop(query_id, None)
        for number in (query_id, -query_id):
            if number in self._keeping_of:
                del self._keeping_of[number]
                self._index.remove(number)

    @property
    def columns(self) -> set[str]:
        """What the queries need of the rows here; the server computes the rest of their outputs."""
        return set(self._columns)

    def match(self, batch: LogBatch) -> Iterator[tuple[Key, BitMap | PenstockError]]:
        """Every query with rows in the batch, with their offsets. Bitmaps may be shared: read only.

        A user's function may fail: that harms no query that does not call it.
        """
        for number, found in self._index.match(batch.columns, batch.vids, batch.static.versions()):
            yield Key.of(number), found

    def matrix(self, batch: LogBatch) -> Matrix:
        """All answers at once."""
        return self._index.match_matrix(batch.columns, batch.vids, batch.static.versions())

    def keeping(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """How long the matches of each number of a matrix have to last."""
        if self._keeping is None or self._keeping[0] is not numbers:
            kinds = (self._keeping_of[n] for n in numbers.tolist())
            self._keeping = numbers, np.fromiter(kinds, np.int8, len(numbers))
        return self._keeping[1]

    def values(self, query_id: int, batch: LogBatch, found: BitMap) -> bytes | PenstockError | None:
        """Output columns that call user functions, computed here because such code never runs in the server."""
        outputs = self._computed.get(query_id)
        if outputs is None:
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


def _columns_of(plan: SelectPlan, computed: Iterable[Output]) -> frozenset[str]:
    needed = [o.expr for o in computed]
    if plan.stream_predicate is not None:
        needed.append(plan.stream_predicate)
    return frozenset(sys.intern(name) for expr in needed for name in columns_of(expr))
