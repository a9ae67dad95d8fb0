"""The trap in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from penstock.catalog.model import QueryDefinition
from penstock.cycle.commit_files import ResultRow
from penstock.cycle.folder import DataFolder
from penstock.cycle.log_batch import LogBatch
from penstock.expr.evaluate import Functions
from penstock.operators.base.step import RowStep
from penstock.pipeline.tasks import Unit
from penstock.sql.plan import Plan
from tests.support.trap import TRAP


class TrapStep(RowStep):
    """All running queries of a table. Each gets a result that says nothing, for the trap in the server."""

    cost: ClassVar[str | None] = None

    def __init__(self, table_id: int, functions: Functions) -> None:
        self._table_id = table_id
        self._queries: set[int] = set()

    def follow(self, query_id: int, query: QueryDefinition | None, plan: Plan | None, fill: bool) -> None:
        self._queries.discard(query_id)
        if plan is not None:
            TRAP.follow(query_id)
            self._queries.add(query_id)

    def __iter__(self) -> Iterator[int]:
        return iter(())

    @property
    def columns(self) -> set[str]:
        return set()

    def run(self, batch: LogBatch, unit: Unit, folder: DataFolder) -> Iterator[ResultRow]:
        TRAP.run(frozenset(self._queries), self._table_id)
        for query_id in sorted(self._queries):
            yield query_id, "trap", 0, batch.first, b""


STEP = TrapStep
