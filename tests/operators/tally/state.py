"""The tally in the server: counts by cycle, folded from commit records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import orjson

from penstock.cycle.commit_files import ResultRow
from penstock.cycle.folder import DataFolder
from penstock.operators.base.state import OperatorState
from penstock.sql.plan import Plan
from penstock.views.query_state import QueryState
from tests.operators.tally.plan import TallyPlan


class TallyState(OperatorState):
    """How many readings each cycle brought to each query."""

    kinds: ClassVar[Mapping[str, Literal["query", "table"]]] = {"tally": "query"}

    def __init__(self, folder: DataFolder) -> None:
        self.counts: dict[int, list[tuple[int, int]]] = {}

    def define(self, query_id: int, plan: Plan, position: int) -> None:
        self.drop(query_id)
        if isinstance(plan, TallyPlan):
            self.counts[query_id] = []

    def drop(self, query_id: int) -> None:
        self.counts.pop(query_id, None)

    def fold(self, row: ResultRow, answer: QueryState | None, cycle: int) -> None:
        if row[0] in self.counts:
            self.counts[row[0]] += [(known or cycle, count) for known, count in orjson.loads(row[4] or b"[]")]

    def matched(self, query_id: int) -> int:
        return sum(count for _, count in self.counts.get(query_id, ()))

    def snapshot(self) -> Iterator[ResultRow]:
        for query_id, counts in self.counts.items():
            yield query_id, "tally", 0, 0, orjson.dumps(counts)


STATE = TallyState
