"""What cycles and queries cost: rows, milliseconds, bytes. Kept since the start of the server."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipeline.commits import CommitRecord

CYCLES_SHOWN = 1000
_ANSWERS = pa.array(["match", "join", "join_file"])
_OF_QUERIES = pa.array(["match", "base", "values", "error", "join", "join_file", "partnered"])


@dataclass(slots=True)
class Cost:
    """Of one query, over all cycles or evaluations so far."""

    evaluations: int = 0
    ms: float = 0.0
    rows: int = 0
    bytes: int = 0

    def add(self, ms: float, rows: int, bytes: int) -> None:
        self.evaluations += 1
        self.ms += ms
        self.rows += rows
        self.bytes += bytes


class Costs:
    """The last thousand cycles one by one, and sums per query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cycles: deque[dict[str, Any]] = deque(maxlen=CYCLES_SHOWN)
        self._queries: dict[int, Cost] = {}

    def note_cycle(self, record: CommitRecord, sharing: Collection[int], known: Collection[int]) -> None:
        """A cycle was committed in which the queries `sharing` took part; `known` are all there are."""
        results = record.results
        results = results.append_column("bytes", pc.binary_length(results.column("payload")))
        of_queries = results.filter(pc.is_in(results.column("kind"), _OF_QUERIES))
        matches = of_queries.filter(pc.is_in(of_queries.column("kind"), _ANSWERS))
        rows, sizes = _sums(matches, "rows"), _sums(of_queries, "bytes")
        ms = record.info.get("ms")
        share_ms = (ms or 0.0) / max(1, len(sharing))
        with self._lock:
            for query_id in sharing:
                cost = self._queries.setdefault(query_id, Cost())
                cost.add(share_ms, rows.get(query_id, 0), sizes.get(query_id, 0))
            for gone in self._queries.keys() - known:
                del self._queries[gone]
            self._cycles.append(
                {
                    "cycle": record.cycle,
                    "now": record.end.now_us,
                    "rows": sum(e - record.start.data.get(t, 0) for t, e in record.end.data.items()),
                    "matched": sum(rows.values()),
                    "ms": ms,
                    "bytes": pc.sum(results.column("bytes")).as_py() or 0,
                    "queries": len(sharing),
                    "journal": record.end.journal,
                    "filling": len(record.end.filling),
                }
            )

    def note_evaluation(self, query_id: int, seconds: float, answer: pa.Table) -> None:
        """A query outside the shared pass was evaluated."""
        with self._lock:
            self._queries.setdefault(query_id, Cost()).add(seconds * 1000, answer.num_rows, answer.nbytes)

    def cycles(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._cycles)

    def of(self, query_id: int) -> dict[str, Any]:
        with self._lock:
            facts = asdict(self._queries.get(query_id, Cost()))
        return {**facts, "ms": round(facts["ms"], 3)}


def _sums(results: pa.Table, column: str) -> dict[int, int]:
    """By query."""
    if not results.num_rows:
        return {}
    found = results.group_by("query", use_threads=False).aggregate([(column, "sum")])
    return dict(zip(found.column("query").to_pylist(), found.column(f"{column}_sum").to_pylist(), strict=True))
