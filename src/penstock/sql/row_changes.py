"""INSERT, UPDATE and DELETE, bound: typed values and kernel expressions over static columns.

Values are as the journal stores them: times as microseconds, decimals as text, binaries as hex.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError, error, suggest
from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Expr, calls_user
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.bound_trees import output_column
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import Const
from penstock.sql.positions import Span, span_of
from penstock.sql.scope import BoundSource, Scope, SourceColumn
from penstock.sql.statements import Delete, Insert, Update
from penstock.sql.values import constant, convert, external, meet, number, show, type_of
from penstock.types import BIGINT, DOUBLE, INT, TEXT, Type

ADDRESS_COLUMN = "_address"


def bind_insert(statement: Insert, state: CatalogState) -> list[tuple[Any, ...]]:
    """Rows in order of the table's columns, and the address behind them in a sensor table.

    Missing columns are NULL; a NULL key is for the catalog to refuse.
    """
    change = _Change(statement, state)
    names = list(change.targets)
    if statement.columns is not None:
        names = [change.target(name, at) for name, at in statement.columns]
        if len(set(names)) != len(names):
            statement.fail(statement.columns[-1][1], error("syntax_error", detail="a column is named twice"))
    rows = []
    for row in statement.rows:
        if len(row) > len(names) or (statement.columns is not None and len(row) != len(names)):
            detail = f"{len(row)} values for {len(names)} columns"
            hint = f"the columns are {', '.join(names)}"
            statement.fail(span_of(row[-1]), error("syntax_error", detail=detail, hint=hint))
        given = {
            name: change.stored(value, change.targets[name], name) for name, value in zip(names, row, strict=False)
        }
        rows.append(tuple(given.get(name) for name in change.targets))
    return rows


def bind_update(statement: Update, state: CatalogState) -> tuple[dict[str, Expr], Expr | None]:
    """New values by column (the stream column's name for the address), over static columns and `_address`; and WHERE."""
    change = _Change(statement, state)
    scope = change.scope(statement.alias)
    assignments: dict[str, Expr] = {}
    for assignment in statement.assignments:
        name, value = change.target(assignment.name, assignment.at), assignment.value
        if name in assignments:
            statement.fail(assignment.at, error("syntax_error", detail=f'"{name}" is set twice'))
        bound = change.assigned(change.binder.bind(value, scope), change.targets[name], name, value)
        assignments[name] = change.kernel(bound, value)
    return assignments, change.where(statement.where, scope)


def bind_delete(statement: Delete, state: CatalogState) -> Expr | None:
    """WHERE."""
    change = _Change(statement, state)
    return change.where(statement.where, change.scope(statement.alias))


class _Change:
    """A statement that changes rows of one table, while it is bound."""

    def __init__(self, statement: Insert | Update | Delete, state: CatalogState) -> None:
        self.statement = statement
        self.binder = ExpressionBinder(statement.source.text, state.functions)
        table = state.tables.get(statement.table)
        if table is None:
            hint = suggest(statement.table, list(state.tables))
            if statement.table in state.queries:
                hint = f'"{statement.table}" is a query; rows go into tables'
            statement.fail(statement.name_at, error("table_not_found", table=statement.table, hint=hint))
        self.table = table
        # What may be written: the static columns and, for a sensor table, its address.
        self.targets = {column.name: column.type for column in table.columns}
        if table.stream is not None:
            self.targets[table.stream.name] = TEXT

    def target(self, name: str, at: Span) -> str:
        """The name of a column that may be written."""
        if name not in self.targets:
            fields = [f.name for f in self.table.stream.fields] if self.table.stream is not None else []
            hint = suggest(name, self.targets)
            if name in fields or name == "ts":
                hint = "readings come from sensors or are pushed; rows hold static columns and the address"
            self.statement.fail(at, error("column_not_found", table=self.table.name, column=name, hint=hint))
        return name

    def scope(self, alias: str | None) -> Scope:
        table = self.table
        columns = [SourceColumn(c.name, c.type, "static") for c in table.columns]
        if table.stream is not None:
            columns.append(SourceColumn(ADDRESS_COLUMN, TEXT, "static"))
        source = BoundSource(alias or table.name, "ordinary", tuple(columns), exp.Table(), name=table.name)
        scope = Scope(sources=[source])
        if table.stream is not None:
            address = output_column(ADDRESS_COLUMN, TEXT)
            address.meta.update(origin="static", source=source)
            scope.named[table.stream.name] = address
        return scope

    def where(self, condition: exp.Expr | None, scope: Scope) -> Expr | None:
        return None if condition is None else self.kernel(self.binder.predicate(condition, scope, "WHERE"), condition)

    def kernel(self, bound: exp.Expr, at: exp.Expr) -> Expr:
        try:
            lowered = lower(bound)
        except NotCovered as failure:
            feature = str(failure).removesuffix(" runs as Spark SQL")
            self.statement.fail(span_of(at), error("not_supported", feature=f"{feature} in a change of rows"))
        if calls_user(lowered):
            # Users' functions run in the pipeline's workers, never in the server process.
            self.statement.fail(span_of(at), error("not_supported", feature="a user's function in a change of rows"))
        return lowered

    def stored(self, value: exp.Expr, target: Type, name: str) -> Any:
        """A constant as the journal stores it."""
        if isinstance(value, exp.Literal):
            if value.is_string and target == TEXT:
                return value.name
            if not value.is_string and target in (INT, BIGINT, DOUBLE) and number(value.name)[1] == target:
                return number(value.name)[0]
        if isinstance(value, exp.Array):
            if target.kind != "ARRAY" or target.element is None:
                failure = error("type_mismatch", detail=f'column "{name}" is {target}, this is an ARRAY')
                self.statement.fail(span_of(value), failure)
            return [self.stored(item, target.element, name) for item in value.expressions]
        bound = self.assigned(self.binder.bind(value, Scope()), target, name, value)
        if isinstance(bound, Const):
            return bound.value
        return _plain(evaluate(self.kernel(bound, value), {}, 1)[0].as_py(), target)

    def assigned(self, bound: exp.Expr, target: Type, name: str, at: exp.Expr) -> exp.Expr:
        """A value as its column stores it: PostgreSQL's assignment casts, a clear error for anything else."""
        found = external(type_of(bound))
        if isinstance(bound, Const):
            try:
                return constant(convert(bound.value, type_of(bound), target, assign=True), target, bound)
            except PenstockError as failure:
                failure.message = f'column "{name}" is {target}: {failure.message}'
                self.statement.fail(span_of(at), failure)
        if found != target and meet(found, target) is None and target != TEXT:
            detail = f'column "{name}" is {target}, this is {show(type_of(bound))}'
            self.statement.fail(span_of(at), error("type_mismatch", detail=detail, hint="use CAST(... AS ...)"))
        return self.binder.coerce(bound, target)


def _plain(value: Any, target: Type) -> Any:
    if value is None:
        return None
    if target.kind == "TIMESTAMP":
        return round(value.timestamp() * 1_000_000)
    if target.kind == "DECIMAL":
        return str(value)
    return value.hex() if isinstance(value, bytes) else value
