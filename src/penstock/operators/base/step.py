"""What an operator does in a cycle with the rows of a table, in a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Protocol

from penstock.catalog.model import QueryDefinition
from penstock.cycle.commit_files import ResultRow
from penstock.cycle.folder import DataFolder
from penstock.cycle.log_batch import LogBatch
from penstock.expr.evaluate import Functions
from penstock.expr.expression import Expr
from penstock.expr.lazy_factors import FactorFigures
from penstock.operators.registry import operators_with, part_of
from penstock.pipeline.tasks import Unit
from penstock.sql.plan import Plan


class RowStep(Protocol):
    """The standing queries of one operator over one table. A worker keeps it from cycle to cycle. Steps derive from it."""

    cost: ClassVar[str | None]  # the kind of unit that its time is reported as; None: it is shared by all of the table

    def follow(self, query_id: int, query: QueryDefinition | None, plan: Plan | None, fill: bool) -> None:
        """Take in a query that is new or changed. Without a plan it is dropped or left out. `fill`: for its history alone."""

    def __iter__(self) -> Iterator[int]:
        """The queries that it runs."""

    @property
    def columns(self) -> set[str]:
        """The columns that it reads of each row; the worker reads those of all steps once."""

    def run(self, batch: LogBatch, unit: Unit, folder: DataFolder) -> Iterator[ResultRow]:
        """Rows for the commit record. `unit.spans` says which rows of a fill each query is to see."""

    def take_figures(self, most: int) -> Mapping[Expr, FactorFigures]:
        """What became of conditions that cost much since this was asked; only of so many, those that took longest."""
        return {}


def new_steps(table_id: int, functions: Functions) -> tuple[RowStep, ...]:
    """The steps of all operators that have one (`step.STEP`), for a table."""
    return tuple(part_of(operator, "step").STEP(table_id, functions) for operator in operators_with("step"))
