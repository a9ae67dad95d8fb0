"""The trap in the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from penstock.cycle.commit_files import ResultRow
from penstock.cycle.folder import DataFolder
from penstock.operators.base.state import OperatorState
from penstock.sql.plan import Plan
from penstock.views.query_state import QueryState
from tests.support.trap import TRAP


class TrapState(OperatorState):
    """Keeps nothing."""

    kinds: ClassVar[Mapping[str, Literal["query", "table"]]] = {"trap": "query"}

    def __init__(self, folder: DataFolder) -> None:
        pass

    def define(self, query_id: int, plan: Plan, position: int) -> None:
        TRAP.define(query_id)

    def fold(self, row: ResultRow, answer: QueryState | None, cycle: int) -> None:
        TRAP.fold(row[0])


STATE = TrapState
