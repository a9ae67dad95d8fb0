"""The tally in a worker: it counts the rows of a batch for each query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import orjson

from penstock.catalog.model import QueryDefinition
from penstock.cycle.commit_files import ResultRow
from penstock.cycle.folder import DataFolder
from penstock.cycle.log_batch import LogBatch
from penstock.expr.evaluate import Functions
from penstock.expr.windows import FOREVER
from penstock.operators.base.step import RowStep
from penstock.pipeline.tasks import Unit
from penstock.sql.plan import Plan
from tests.operators.tally.plan import TallyPlan


class TallyStep(RowStep):
    """The queries of one table, by the time since when readings count."""

    cost: ClassVar[str | None] = None

    def __init__(self, table_id: int, functions: Functions) -> None:
        self._since: dict[int, int] = {}

    def follow(self, query_id: int, query: QueryDefinition | None, plan: Plan | None, fill: bool) -> None:
        if isinstance(plan, TallyPlan) and query is not None and not query.paused:
            start_us = -FOREVER if query.start_us is None else query.start_us  # None: before the first reading
            self._since[query_id] = plan.window.begin.resolve(start_us, start_us)
        else:
            self._since.pop(query_id, None)

    def __iter__(self) -> Iterator[int]:
        return iter(self._since)

    @property
    def columns(self) -> set[str]:
        return set()

    def run(self, batch: LogBatch, unit: Unit, folder: DataFolder) -> Iterator[ResultRow]:
        spans = {query_id: (first - batch.first, end - batch.first) for query_id, first, end in unit.spans}
        for query_id, since in self._since.items():
            first, end = spans.get(query_id, (0, batch.count))
            count = int((batch.times[first:end] >= since).sum())
            if count:
                yield query_id, "tally", count, batch.first, orjson.dumps([[None, count]])


STEP = TallyStep
