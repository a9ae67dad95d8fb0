"""A number per query, such as rows matched, added up for many queries at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class QueryCounters:
    """A sum per query. A dropped query's sum is removed."""

    def __init__(self) -> None:
        self._queries = np.empty(0, np.int64)  # ascending
        self._sums = np.empty(0, np.int64)

    def add(self, queries: Ints, counts: Ints) -> None:
        """Add to some queries; ascending, each once."""
        at = np.searchsorted(self._queries, queries)
        new = np.ones(len(queries), np.bool_)
        inside = at < len(self._queries)
        new[inside] = self._queries[at[inside]] != queries[inside]
        if new.any():
            self._queries = np.insert(self._queries, at[new], queries[new])
            self._sums = np.insert(self._sums, at[new], 0)
            at = np.searchsorted(self._queries, queries)
        self._sums[at] += counts

    def take(self, queries: Ints, counts: Ints) -> None:
        """Take away again what was added."""
        self.add(queries, -counts)

    def forget_empty(self) -> None:
        """Forget the queries that nothing is left of."""
        left = self._sums != 0
        if not left.all():
            self._queries, self._sums = self._queries[left], self._sums[left]

    def forget(self, query_id: int) -> None:
        at = self._place(query_id)
        if at is not None:
            self._queries, self._sums = np.delete(self._queries, at), np.delete(self._sums, at)

    def __getitem__(self, query_id: int) -> int:
        at = self._place(query_id)
        return 0 if at is None else int(self._sums[at])

    def _place(self, query_id: int) -> int | None:
        at = int(np.searchsorted(self._queries, query_id))
        return at if at < len(self._queries) and self._queries[at] == query_id else None
