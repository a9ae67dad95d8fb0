"""Rows per second along the arrows of a plan, counted from the log on request and not while cycles run.

A request evaluates the conditions of the plan's streams over the readings since the last request. Of very many readings
only the newest are counted and scaled up, so a busy table costs as much as a quiet one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from penstock.database.database import Database
from penstock.database.plan_graph import Passing, PlanGraph
from penstock.expr.evaluate import evaluate_mask, evaluate_static_of
from penstock.expr.expression import UserCall, columns_of, walk
from penstock.operators.base.log_reader import LogReader

ROWS_A_LOOK = 20_000
EVERY_S = 2.0


class Flows:
    """Counts rows of the streams of one plan between requests."""

    def __init__(self, database: Database, now_s: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._now_s = now_s
        self._seen: dict[int, tuple[float, int]] = {}  # by table: when, and how far the log had come
        self._rates: dict[Passing, float] = {}

    def look(self, graph: PlanGraph) -> dict[Passing, float]:
        """Rows per second that pass each step since the last request; unknown ones are left out."""
        now_s = self._now_s()
        steps = {box.passes for box in graph.boxes if box.passes is not None}
        for table_id in {step.table_id for step in steps}:
            head = self._database.log.head(table_id)
            before_s, before = self._seen.get(table_id, (now_s, head))
            if table_id not in self._seen or now_s - before_s >= EVERY_S:
                self._seen[table_id] = (now_s, head)
                if now_s > before_s:
                    self._count([step for step in steps if step.table_id == table_id], before, head, now_s - before_s)
        return {step: rate for step, rate in self._rates.items() if step in steps}

    def _count(self, steps: list[Passing], before: int, head: int, seconds: float) -> None:
        table = self._database.catalog.state.tables_by_id.get(steps[0].table_id)
        steps = [step for step in steps if not _calls_users(step)]
        if table is None or not steps:
            return
        first = max(before, head - ROWS_A_LOOK)
        wanted = {name for step in steps if step.stream is not None for name in columns_of(step.stream)}
        log_reader = LogReader(self._database.log.folder, table, self._database.catalog.state.rows(table.id))
        passed, rows = dict.fromkeys(steps, 0), 0
        for _, vids, columns in log_reader.runs(first, head, wanted) if first < head else ():
            rows += len(vids)
            for step in steps:
                keep = evaluate_mask(step.stream, columns, len(vids))
                if step.static is not None:
                    keep = keep & evaluate_static_of(step.static, log_reader.static.versions(), vids)
                passed[step] += int(np.count_nonzero(keep))
        per_s = (head - before) / seconds
        self._rates |= {step: per_s * passed[step] / rows if rows else 0.0 for step in steps}


def _calls_users(step: Passing) -> bool:
    """Users' functions run in workers, never here."""
    return any(
        isinstance(part, UserCall)
        for predicate in (step.static, step.stream)
        if predicate is not None
        for part in walk(predicate)
    )
