"""The aggregate trees over answers, by query and column; a tree is built at the first request.

They are soft state. A tree is dropped some minutes after its last request, when its query is dropped or changed, and, the least
recently used first, when all trees together exceed their memory limit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Container
from dataclasses import dataclass

from penstock.expr.expression import Expr
from penstock.expr.windows import FOREVER
from penstock.operators.aggregate.trees.totals import Kind
from penstock.operators.aggregate.trees.tree import AggregateTree

UNUSED_S = 600.0
ROW_BYTES = 28  # of a tree: time, number, value, whether there is one, and its share of the nodes


@dataclass(slots=True)
class AnswerTree:
    """One column's tree: all rows of an answer below `head` (a position or a number), from a time on.

    `identity` is what the rows depend on beside the log. `widest` is the longest time before NOW that was asked for.
    """

    tree: AggregateTree
    identity: object
    since: int
    head: int = 0
    floor: int = 0
    widest: int = 0
    asked_s: float = 0.0

    def reaches(self, identity: object, low: int, head: int) -> bool:
        """Whether it can be extended to answer from a time on."""
        return self.identity == identity and self.since <= low and self.head <= head

    def forget_unasked(self, low: int, now_us: int) -> None:
        """Drop rows that are older than any requested window."""
        self.widest = max(self.widest, now_us - low)
        begin = max(min(low, now_us - self.widest), -FOREVER)
        if begin > self.since:
            self.tree.expire(begin)
            self.since = begin


class AnswerTrees:
    """The trees of all queries. Thread-safe; a tree itself is used under its query's lock only."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._trees: dict[tuple[int, Expr], AnswerTree] = {}

    def lock_of(self, query: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(query, threading.Lock())

    def find(self, query_id: int, column: Expr) -> AnswerTree | None:
        with self._lock:
            return self._trees.get((query_id, column))

    def new(self, kind: Kind, identity: object, since: int) -> AnswerTree:
        return AnswerTree(AggregateTree(kind), identity, since)

    def keep(self, query_id: int, column: Expr, tree: AnswerTree) -> None:
        """Keep a tree that was just used, and drop older ones over the memory limit."""
        tree.asked_s = time.monotonic()
        with self._lock:
            self._trees[query_id, column] = tree
            for key in sorted(self._trees, key=lambda k: self._trees[k].asked_s):
                if sum(t.tree.nbytes for t in self._trees.values()) <= self.most_bytes:
                    break
                del self._trees[key]

    def tidy(self, queries: Container[int]) -> None:
        """Forget the trees of queries that are gone, and those without a request for some minutes."""
        now_s = time.monotonic()
        with self._lock:
            for key in [k for k, t in self._trees.items() if k[0] not in queries or now_s - t.asked_s > UNUSED_S]:
                del self._trees[key]
            if not self._trees and len(self._locks) > 1000:
                self._locks = {name: lock for name, lock in self._locks.items() if lock.locked()}

    def memory_of(self, query_id: int) -> int:
        with self._lock:
            return sum(t.tree.nbytes for (q, _), t in self._trees.items() if q == query_id)
