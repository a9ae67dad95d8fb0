"""A cache of plans by SQL text, for questions that aggregate trees answer: parsing and planning take longer than the answer.

A plan holds for as long as no definition changes. Other questions wait for Spark anyway.
"""

from __future__ import annotations

import threading

from penstock.cache import Cache
from penstock.sql.plan import SparkPlan, TreePlan

MOST = 256
LONGEST = 10_000


class PlanCache:
    """The plans of those that were asked last. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: Cache[str, tuple[int, SparkPlan]] = Cache(most=MOST)

    def find(self, sql: str, position: int) -> SparkPlan | None:
        """The plan of a text as of a journal position."""
        with self._lock:
            known = self._plans.get(sql)
        return known[1] if known is not None and known[0] == position else None

    def keep(self, sql: str, position: int, plan: SparkPlan) -> None:
        if plan.operator != TreePlan.operator or len(sql) > LONGEST:
            return
        with self._lock:
            self._plans.put(sql, (position, plan))
