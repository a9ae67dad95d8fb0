"""Questions that trees answer, by their text: asked again, they need no reading and no planning, which take longer.

A plan holds for as long as no definition changes. Other questions wait for Spark anyway.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from penstock.sql.plan import SparkPlan

MOST = 256
LONGEST = 10_000


class KnownQuestions:
    """The plans of those that were asked last. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[str, tuple[int, SparkPlan]] = OrderedDict()

    def find(self, sql: str, position: int) -> SparkPlan | None:
        """The plan of a text as of a journal position."""
        with self._lock:
            known = self._plans.get(sql)
            if known is None or known[0] != position:
                return None
            self._plans.move_to_end(sql)
            return known[1]

    def keep(self, sql: str, position: int, plan: SparkPlan) -> None:
        if plan.on_demand is None or len(sql) > LONGEST:
            return
        with self._lock:
            self._plans[sql] = (position, plan)
            self._plans.move_to_end(sql)
            if len(self._plans) > MOST:
                self._plans.popitem(last=False)
