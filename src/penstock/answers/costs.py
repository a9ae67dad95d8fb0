"""What cycles and queries cost: rows, milliseconds, bytes. Kept since the start of the server."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.answers.cost_shares import CostShares, Floats, own_ms
from penstock.cycle.commits import CommitRecord

CYCLES_SHOWN = 1000
_ANSWERS = pa.array(["match", "join", "join_file"])
_OF_QUERIES = pa.array(["match", "base", "values", "error", "join", "join_file", "partnered"])
_EVALUATIONS, _MS, _ROWS, _BYTES, _ASKED_MS = range(5)
_FIGURES = 5
Ints = npt.NDArray[np.int64]


class Costs:
    """The costs of the last thousand cycles, and sums per query: one row of an array each, so updates need no loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cycles: deque[dict[str, Any]] = deque(maxlen=CYCLES_SHOWN)
        self._queries: Ints = np.empty(0, np.int64)  # ascending
        self._sums = np.zeros((0, _FIGURES))
        self._sharing: Ints = np.empty(0, np.int64)  # places of those that take part in cycles
        self._users = CostShares()
        self.version: object = None
        self._noted_s: float | None = None

    def follow(self, version: object, sharing: Collection[int], known: Collection[int], users: CostShares) -> None:
        """Definitions changed: the queries `sharing` take part in cycles from now on; `known` are all there are."""
        with self._lock:
            queries = np.sort(np.fromiter(known, np.int64, len(known)))
            sums = np.zeros((len(queries), _FIGURES))
            if len(self._queries) and len(queries):
                here, there = _common(queries, self._queries)
                sums[here] = self._sums[there]
            self._queries, self._sums, self.version, self._users = queries, sums, version, users
            self._sharing = np.searchsorted(queries, np.sort(np.fromiter(sharing, np.int64, len(sharing))))

    def note_cycle(self, record: CommitRecord, fold_ms: float = 0.0) -> None:
        """Add the costs of a committed cycle; `fold_ms` is the time of folding it into the answers."""
        results = record.results
        results = results.append_column("bytes", pc.binary_length(results.column("payload")))
        ms = record.info.get("ms")
        now_s, before_s = time.monotonic(), self._noted_s
        self._noted_s = now_s
        # Planning, writing offsets and the record, and waiting for the next cycle to be due. Folding goes on beside that.
        between_ms = None if before_s is None else max(0.0, (now_s - before_s) * 1000 - (ms or 0.0))
        matched = 0
        with self._lock:
            self._sums[self._sharing, _EVALUATIONS] += 1
            whose, own = own_ms(record.results, self._users)
            self._add(whose, own, _MS)
            # Workers run side by side, so that what they spent may be more than the time that passed.
            self._sums[self._sharing, _MS] += max(0.0, (ms or 0.0) - own.sum()) / max(1, len(self._sharing))
            for queries, rows in _matches(results):
                matched += int(rows.sum())
                self._add(queries, rows, _ROWS)
            self._add(*_sums(results.filter(pc.is_in(results.column("kind"), _OF_QUERIES)), "bytes"), _BYTES)
            self._cycles.append(
                {
                    "cycle": record.cycle,
                    "now": record.end.now_us,
                    "rows": sum(e - record.start.data.get(t, 0) for t, e in record.end.data.items()),
                    "matched": matched,
                    "ms": ms,
                    "bytes": pc.sum(results.column("bytes")).as_py() or 0,
                    "queries": len(self._sharing),
                    "journal": record.end.journal,
                    "filling": len(record.end.filling),
                    "fold_ms": round(fold_ms, 1),
                    "between_ms": None if between_ms is None else round(between_ms, 1),
                }
            )

    def note_evaluation(self, query_id: int, seconds: float, answer: pa.Table) -> None:
        """Spark SQL has evaluated a query."""
        with self._lock:
            at = self._place(query_id)
            if at is not None:
                self._sums[at] += (1, seconds * 1000, answer.num_rows, answer.nbytes, 0.0)

    def note_asked(self, query_id: int, seconds: float) -> None:
        """Add the processor time that one invocation of a query took in the server."""
        with self._lock:
            at = self._place(query_id)
            if at is not None:
                self._sums[at, _ASKED_MS] += seconds * 1000

    def _place(self, query_id: int) -> int | None:
        at = int(np.searchsorted(self._queries, query_id))
        return at if at < len(self._queries) and self._queries[at] == query_id else None

    def _add(self, queries: Ints, values: Ints | Floats, column: int) -> None:
        if len(queries) and len(self._queries):
            here, there = _common(queries, self._queries)
            np.add.at(self._sums[:, column], there, values[here])

    def cycles(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._cycles)

    def of(self, query_id: int) -> dict[str, Any]:
        """The costs of one query, over all cycles or evaluations so far."""
        with self._lock:
            at = self._place(query_id)
            figures = self._sums[at].tolist() if at is not None else [0.0] * _FIGURES
        evaluations, ms, rows, size, asked_ms = figures
        times = {"ms": round(ms, 3), "asked_ms": round(asked_ms, 3)}
        return {"evaluations": int(evaluations), **times, "rows": int(rows), "bytes": int(size)}

    def costliest(self, count: int) -> list[int]:
        """The queries with the most time, then the most rows; the costliest first."""
        with self._lock:
            order = np.lexsort((self._sums[:, _ROWS], self._sums[:, _MS]))[::-1][:count]
            found: list[int] = self._queries[order].tolist()
            return found


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
