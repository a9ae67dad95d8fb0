"""The standing select-project queries of one table, kept ready in a worker to meet rows together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from penstock.catalog.model import POSITION_COLUMN
from penstock.errors import PenstockError
from penstock.operators.evaluate import Functions, evaluate
from penstock.operators.expr import Expr, calls_user, columns_of
from penstock.operators.matrix import Matrix
from penstock.operators.predicates import PredicateIndex
from penstock.operators.windows import RowsWindow
from penstock.pipeline.keeping import Keeping, keeping_of
from penstock.pipeline.rows import Rows
from penstock.sql.plan import SelectPlan


@dataclass(frozen=True, slots=True)
class Key:
    """What a bitmap stands for: a query's answer (`match`), or the rows its rows window counts (`base`)."""

    query_id: int
    kind: str

    @property
    def number(self) -> int:
        """What stands for it in the index."""
        return self.query_id if self.kind == "match" else -self.query_id


class SharedPass:
    """Standing select-project queries of one table, ready to meet rows."""

    def __init__(self, functions: Functions) -> None:
        self.plans: dict[int, SelectPlan] = {}
        self._functions = functions
        self._columns: Counter[str] = Counter()
        self._keys: dict[int, Key] = {}
        self._index = PredicateIndex(functions=functions)
        self._keeping_of: dict[int, Keeping] = {}
        self._keeping: tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]] | None = None

    def __len__(self) -> int:
        return len(self.plans)

    def add(self, query_id: int, plan: SelectPlan) -> None:
        """Put a query in, in place of what it was before."""
        if query_id in self.plans:
            self.remove(query_id)
        self.plans[query_id] = plan
        self._columns.update(_columns_of(plan))
        self._put(Key(query_id, "match"), plan.static_predicate, plan.stream_predicate, keeping_of(plan))
        if isinstance(plan.window, RowsWindow) and plan.static_predicate is not None:
            self._put(Key(query_id, "base"), plan.static_predicate, None, Keeping.RECORD)

    def _put(self, key: Key, static: Expr | None, stream: Expr | None, keeping: Keeping) -> None:
        self._keys[key.number], self._keeping_of[key.number] = key, keeping
        self._index.add(key.number, static, stream)

    def remove(self, query_id: int) -> None:
        # What no query needs any more must not be read from the log.
        self._columns -= Counter(_columns_of(self.plans.pop(query_id)))
        for number in (query_id, -query_id):
            if number in self._keys:
                del self._keys[number], self._keeping_of[number]
                self._index.remove(number)

    @property
    def columns(self) -> set[str]:
        """What the queries need of the rows here; the server computes the rest of their outputs."""
        return set(self._columns)

    def match(self, batch: Rows) -> Iterator[tuple[Key, BitMap | PenstockError]]:
        """Every query with rows in the batch, with their offsets. Bitmaps may be shared: read only.

        A user's function may fail: that harms no query that does not call it.
        """
        for number, found in self._index.match(batch.columns, batch.vids, batch.static.versions()):
            yield self._keys[number], found

    def matrix(self, batch: Rows) -> Matrix:
        """All answers at once."""
        return self._index.match_matrix(batch.columns, batch.vids, batch.static.versions())

    def key(self, number: int) -> Key:
        """Whose a number of the matrix is."""
        return self._keys[number]

    def keeping(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """How long the matches of each number of a matrix have to last."""
        if self._keeping is None or self._keeping[0] is not numbers:
            kinds = (self._keeping_of[n] for n in numbers.tolist())
            self._keeping = numbers, np.fromiter(kinds, np.int8, len(numbers))
        return self._keeping[1]

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


def _columns_of(plan: SelectPlan) -> set[str]:
    needed = [o.expr for o in plan.outputs if calls_user(o.expr)]
    if plan.stream_predicate is not None:
        needed.append(plan.stream_predicate)
    return {name for expr in needed for name in columns_of(expr)}
