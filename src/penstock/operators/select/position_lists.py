"""Lists: the few matches of each of many queries in one range of rows; durable in the commit record.

One array of queries, one with the end of each query's part, one of row numbers: all queries are handled at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
# Row numbers are 32 bits wide.
MOST_ROWS = 1 << 32


@dataclass(frozen=True, slots=True)
class PositionLists:
    """Log positions in [first, end) by query: those of query i are `first + offsets[starts[i] : starts[i + 1]]`."""

    first: int
    end: int
    queries: Ints  # ascending
    starts: Ints
    offsets: npt.NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        return self.queries.nbytes + self.starts.nbytes + self.offsets.nbytes

    def positions(self, query_id: int) -> Ints | None:
        """A query's positions, ascending; None where it has none."""
        at = int(np.searchsorted(self.queries, query_id))
        if at == len(self.queries) or self.queries[at] != query_id:
            return None
        return self.offsets[self.starts[at] : self.starts[at + 1]].astype(np.int64) + self.first

    def to_bytes(self) -> bytes:
        head = np.array([self.end, len(self.queries)], np.int64)
        return b"".join(a.tobytes() for a in (head, self.queries, self.starts, self.offsets))


def lists_from_bytes(first: int, payload: bytes) -> PositionLists:
    end, count = (int(n) for n in np.frombuffer(payload, np.int64, 2))
    queries = np.frombuffer(payload, np.int64, count, 16)
    starts = np.frombuffer(payload, np.int64, count + 1, 16 + 8 * count)
    return PositionLists(first, end, queries, starts, np.frombuffer(payload, np.uint32, -1, 24 + 16 * count))


def merge_lists(parts: Sequence[PositionLists], keep_from: dict[int, int] | None) -> PositionLists | None:
    """Merge several lists, without positions below `keep_from` of their query (None: with all); other queries are dropped."""
    first, end = min(p.first for p in parts), max(p.end for p in parts)
    queries = np.concatenate([np.repeat(p.queries, np.diff(p.starts)) for p in parts])
    positions = np.concatenate([p.offsets.astype(np.int64) + p.first for p in parts])
    if keep_from is not None:
        kept = _reached(queries, positions, keep_from)
        queries, positions = queries[kept], positions[kept]
    if len(queries) == 0:
        return None
    if len(parts) > 1:
        order = np.lexsort((positions, queries))
        queries, positions = queries[order], positions[order]
    edges = np.flatnonzero(np.append(True, np.diff(queries) != 0))
    starts = np.append(edges, len(queries))
    return PositionLists(first, end, queries[edges], starts, (positions - first).astype(np.uint32))


def _reached(queries: Ints, positions: Ints, keep_from: dict[int, int]) -> npt.NDArray[np.bool_]:
    if not keep_from:
        return np.zeros(len(queries), np.bool_)
    known = np.array(sorted(keep_from), np.int64)
    floors = np.array([keep_from[q] for q in known.tolist()], np.int64)
    at = np.minimum(np.searchsorted(known, queries), len(known) - 1)
    kept: npt.NDArray[np.bool_] = (known[at] == queries) & (positions >= floors[at])
    return kept
