"""What cycles and queries cost: rows, milliseconds, bytes. Kept since the start of the server.

Work time that a cycle measured for some queries is divided among those; the rest is shared by all. Beside that is when each
query was last invoked (`Usage`), which is kept across restarts.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.answers.units import UnitKey, Work, shared_ms, users_of_units
from penstock.cache import Cache
from penstock.cycle.commits import CommitRecord
from penstock.cycle.condition_rows import ConditionKey, conditions_in
from penstock.disk_sync import replace_file
from penstock.expr.expression import Expr
from penstock.expr.lazy_factors import FactorFigures
from penstock.views.answer_store import AnswerStore

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def own_ms(work: Work, users: Mapping[UnitKey, list[int]]) -> tuple[Ints, Floats]:
    """Queries and the milliseconds that a cycle spent on each, where that was measured; one may be named several times."""
    queries: list[int] = []
    spent: list[float] = []
    for sharing, ms in shared_ms(work, users):
        queries += sharing
        spent += [ms / max(1, len(sharing))] * len(sharing)
    return np.array(queries, np.int64), np.array(spent, np.float64)


CYCLES_SHOWN = 1000
_CONDITIONS_MOST = 10_000
_ANSWERS = pa.array(["match", "join", "join_file"])
_OF_QUERIES = pa.array(["match", "base", "values", "error", "join", "join_file", "partnered"])
_EVALUATIONS, _MS, _ROWS, _BYTES, _ASKED_MS = range(5)
_FIGURES = 5


class Costs:
    """The costs of the last thousand cycles, and sums per query: one row of an array each, so updates need no loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cycles: deque[dict[str, Any]] = deque(maxlen=CYCLES_SHOWN)
        self._queries: Ints = np.empty(0, np.int64)  # ascending
        self._sums = np.zeros((0, _FIGURES))
        self._conditions: Cache[ConditionKey, FactorFigures] = Cache(most=_CONDITIONS_MOST)
        self._sharing: Ints = np.empty(0, np.int64)  # places of those that take part in cycles
        self.users: dict[UnitKey, list[int]] = {}  # replaced as a whole
        self._branches: Ints = np.empty(0, np.int64)  # ascending, and the queries that their costs count for
        self._whole: Ints = np.empty(0, np.int64)
        self._version: int | None = None
        self._defined: int | None = None

    def follow(self, store: AnswerStore) -> None:
        """Where definitions changed: from now on the queries of the store that are neither paused nor asleep take part in cycles."""
        if store.state.position == self._version:
            return
        with self._lock:
            if store.defined != self._defined:
                known = store.state.queries_by_id
                whole = {q: query.branch_of for q, query in known.items() if query.branch_of is not None}
                self._branches = np.array(sorted(whole), np.int64)
                self._whole = np.array([whole[q] for q in self._branches.tolist()], np.int64)
                queries = np.array(sorted(known.keys() - whole.keys()), np.int64)
                sums = np.zeros((len(queries), _FIGURES))
                if len(self._queries) and len(queries):
                    here, there = _common(queries, self._queries)
                    sums[here] = self._sums[there]
                self._queries, self._sums, self.users = queries, sums, users_of_units(store)
                self._defined = store.defined
            running = (q for q, answer in store.answers.items() if not answer.paused and not answer.sleeping)
            sharing = np.unique(self._charged(np.array(list(running), np.int64)))
            self._sharing, self._version = np.searchsorted(self._queries, sharing), store.state.position

    def note_cycle(self, record: CommitRecord, work: Work, fold_ms: float = 0.0) -> None:
        """Add the costs of a committed cycle and of its work; `fold_ms` is the time of folding it into the answers."""
        results = record.results
        results = results.append_column("bytes", pc.binary_length(results.column("payload")))
        ms = record.info.get("ms")
        matched = 0
        with self._lock:
            self._sums[self._sharing, _EVALUATIONS] += 1
            whose, own = own_ms(work, self.users)
            self._add(whose, own, _MS)
            # Workers run side by side, so that what they spent may be more than the time that passed.
            self._sums[self._sharing, _MS] += max(0.0, (ms or 0.0) - own.sum()) / max(1, len(self._sharing))
            for key, figures in conditions_in(record.results):
                known = self._conditions.get(key) or FactorFigures()
                self._conditions.put(key, known.plus(figures))
            for queries, rows in _matches(results):
                matched += int(rows.sum())
                self._add(queries, rows, _ROWS)
            self._add(*_sums(results.filter(pc.is_in(results.column("kind"), _OF_QUERIES)), "bytes"), _BYTES)
            self._cycles.append(
                {
                    "cycle": record.cycle,
                    "now": record.end.now_us,
                    "rows": rows_read(record),
                    "matched": matched,
                    "ms": ms,
                    "bytes": pc.sum(results.column("bytes")).as_py() or 0,
                    "queries": len(self._sharing),
                    "journal": record.end.journal,
                    "filling": len(record.end.filling),
                    "fold_ms": round(fold_ms, 1),
                    # Planning, writing offsets and the record, and waiting to be due. Folding goes on beside that.
                    "between_ms": record.info.get("between_ms"),
                }
            )

    def note_evaluation(self, query_id: int, seconds: float, answer: pa.Table) -> None:
        """Spark SQL has evaluated a query."""
        self._note(query_id, (1, seconds * 1000, answer.num_rows, answer.nbytes, 0.0))

    def note_asked(self, query_id: int, seconds: float) -> None:
        """Add the processor time that one invocation of a query took in the server."""
        self._note(query_id, (0, 0.0, 0, 0, seconds * 1000))

    def _note(self, query_id: int, figures: tuple[float, ...]) -> None:
        with self._lock:
            at = self._place(query_id)
            if at is not None:
                self._sums[at] += figures

    def _place(self, query_id: int) -> int | None:
        at = int(np.searchsorted(self._queries, query_id))
        return at if at < len(self._queries) and self._queries[at] == query_id else None

    def _charged(self, queries: Ints) -> Ints:
        """The queries that costs count for: of a branch the one that it belongs to."""
        if not len(self._branches):
            return queries
        charged = queries.copy()
        here, there = _common(queries, self._branches)
        charged[here] = self._whole[there]
        return charged

    def _add(self, queries: Ints, values: Ints | Floats, column: int) -> None:
        if len(queries) and len(self._queries):
            here, there = _common(self._charged(queries), self._queries)
            np.add.at(self._sums[:, column], there, values[here])

    def cycles(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._cycles)

    def of(self, query_id: int) -> dict[str, Any]:
        """The costs of one query, over all cycles or evaluations so far."""
        with self._lock:
            at = self._place(query_id)
            evaluations, ms, rows, size, asked_ms = self._sums[at].tolist() if at is not None else [0.0] * _FIGURES
        times = {"ms": round(ms, 3), "asked_ms": round(asked_ms, 3)}
        return {"evaluations": int(evaluations), **times, "rows": int(rows), "bytes": int(size)}

    def of_condition(self, table_id: int, expr: Expr) -> FactorFigures | None:
        """What became of a condition that costs much, in the cycles so far. `table_id` is 0 for combinations of rows."""
        with self._lock:
            return self._conditions.get((table_id, str(expr)))

    def costliest(self, count: int) -> list[int]:
        """The queries with the most time, then the most rows; the costliest first."""
        with self._lock:
            order = np.lexsort((self._sums[:, _ROWS], self._sums[:, _MS]))[::-1][:count]
            found: list[int] = self._queries[order].tolist()
            return found


def rows_read(record: CommitRecord) -> int:
    """New rows of all tables; history is not counted."""
    return sum(end - record.start.data.get(table, 0) for table, end in record.end.data.items())


def _matches(results: pa.Table) -> Iterator[tuple[Ints, Ints]]:
    """(queries, rows that a cycle found for each)."""
    yield _sums(results.filter(pc.is_in(results.column("kind"), _ANSWERS)), "rows")
    # What many queries matched in one piece of the log comes as one row: their numbers, then their counts.
    counts = results.filter(pc.equal(results.column("kind"), "counts"))
    for payload in counts.column("payload").to_pylist():
        queries, rows = np.split(np.frombuffer(payload, np.int64), 2)
        yield queries, rows


def _sums(results: pa.Table, column: str) -> tuple[Ints, Ints]:
    """By query."""
    found = results.group_by("query", use_threads=False).aggregate([(column, "sum")])
    values = pc.fill_null(found.column(f"{column}_sum"), 0).cast(pa.int64())
    return found.column("query").cast(pa.int64()).to_numpy(), values.to_numpy()


def _common(wanted: Ints, known: Ints) -> tuple[Ints, Ints]:
    """Places in both of the values that both have; `known` is ascending."""
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    here = np.flatnonzero(known[at] == wanted)
    return here, at[here]


SAVE_EVERY_S = 60.0


class Usage:
    """The time and number of invocations by query. It is saved about once a minute, so a crash loses a minute.

    Soft state: a file that cannot be read is started again.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._known: dict[int, tuple[int, int]] = {}
        self._changed = False
        self._saved_s = time.monotonic()
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            self._known = {int(q): (int(at), int(n)) for q, (at, n) in orjson.loads(file.read_bytes()).items()}

    def note(self, query_id: int, at_us: int) -> None:
        with self._lock:
            self._known[query_id] = (at_us, self.invocations(query_id) + 1)
            self._changed = True

    def last_us(self, query_id: int) -> int | None:
        return self._known.get(query_id, (None, 0))[0]

    def invocations(self, query_id: int) -> int:
        return self._known.get(query_id, (0, 0))[1]

    def save_sometimes(self, queries: Collection[int]) -> None:
        """Write it down if a minute has passed; `queries` are those that there are."""
        if self._changed and time.monotonic() - self._saved_s > SAVE_EVERY_S:
            self.save(queries)

    def save(self, queries: Collection[int]) -> None:
        with self._lock:
            self._known = {q: known for q, known in self._known.items() if q in queries}
            text = orjson.dumps({str(q): known for q, known in self._known.items()})
            self._changed, self._saved_s = False, time.monotonic()
        with contextlib.suppress(OSError):  # a full disk stops ingest, not answers
            replace_file(self._file, text)
