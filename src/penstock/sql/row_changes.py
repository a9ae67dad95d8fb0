"""INSERT, UPDATE and DELETE, bound: typed values and kernel expressions over static columns.

Values are as the journal stores them: times as microseconds, decimals as text, binaries as hex.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError, error, suggest
from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Expr, UserCall, walk
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.bound_trees import output_column
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import Const
from penstock.sql.positions import span_of
from penstock.sql.scope import BoundSource, Scope, SourceColumn
from penstock.sql.statements import Delete, Insert, Update
from penstock.sql.values import constant, convert, external, meet, number, show, type_of
from penstock.types import BIGINT, DOUBLE, INT, TEXT, Type

ADDRESS_COLUMN = "_address"


@dataclass(frozen=True, slots=True)
class BoundInsert:
    """Rows in order of the table's columns, and the address behind them in a sensor table."""

    table: str
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class BoundUpdate:
    """New values by column (the stream column's name for the address), over static columns and `_address`."""

    table: str
    assignments: dict[str, Expr]
    where: Expr | None


@dataclass(frozen=True, slots=True)
class BoundDelete:
    table: str
    where: Expr | None


def bind_insert(statement: Insert, state: CatalogState) -> BoundInsert:
    """Check columns and values. Missing columns are NULL; a NULL key is for the catalog to refuse."""
    table = _table(statement, state)
    targets = _targets(table)
    names = list(targets)
    if statement.columns is not None:
        for name, at in statement.columns:
            if name not in targets:
                statement.fail(at, _unknown(table, name))
        names = [name for name, _ in statement.columns]
        if len(set(names)) != len(names):
            statement.fail(statement.columns[-1][1], error("syntax_error", detail="a column is named twice"))
    binder = ExpressionBinder(statement.source.text, state.functions)
    rows = []
    for row in statement.rows:
        if len(row) > len(names) or (statement.columns is not None and len(row) != len(names)):
            detail = f"{len(row)} values for {len(names)} columns"
            hint = f"the columns are {', '.join(names)}"
            statement.fail(span_of(row[-1]), error("syntax_error", detail=detail, hint=hint))
        given = {
            name: _constant(value, targets[name], name, statement, binder)
            for name, value in zip(names, row, strict=False)
        }
        rows.append(tuple(given.get(name) for name in targets))
    return BoundInsert(table.name, rows)


def bind_update(statement: Update, state: CatalogState) -> BoundUpdate:
    table = _table(statement, state)
    targets = _targets(table)
    binder = ExpressionBinder(statement.source.text, state.functions)
    scope = _scope(table, statement.alias)
    assignments: dict[str, Expr] = {}
    for assignment in statement.assignments:
        name, value, at = assignment.name, assignment.value, assignment.at
        if name not in targets:
            statement.fail(at, _unknown(table, name))
        if name in assignments:
            statement.fail(at, error("syntax_error", detail=f'"{name}" is set twice'))
        bound = binder.bind(value, scope)
        assignments[name] = _kernel(_assigned(binder, bound, targets[name], name, value, statement), value, statement)
    return BoundUpdate(table.name, assignments, _where(statement, binder, scope))


def bind_delete(statement: Delete, state: CatalogState) -> BoundDelete:
    table = _table(statement, state)
    binder = ExpressionBinder(statement.source.text, state.functions)
    return BoundDelete(table.name, _where(statement, binder, _scope(table, statement.alias)))


def _where(statement: Update | Delete, binder: ExpressionBinder, scope: Scope) -> Expr | None:
    if statement.where is None:
        return None
    return _kernel(binder.predicate(statement.where, scope, "WHERE"), statement.where, statement)


def _kernel(bound: exp.Expr, at: exp.Expr, statement: Insert | Update | Delete) -> Expr:
    try:
        lowered = lower(bound)
    except NotCovered as failure:
        feature = str(failure).removesuffix(" runs as Spark SQL")
        statement.fail(span_of(at), error("not_supported", feature=f"{feature} in a change of rows"))
    if any(isinstance(node, UserCall) for node in walk(lowered)):
        # Users' functions run in the pipeline's workers, never in the server process.
        statement.fail(span_of(at), error("not_supported", feature="a user's function in a change of rows"))
    return lowered


def _constant(value: exp.Expr, target: Type, name: str, statement: Insert, binder: ExpressionBinder) -> Any:
    if isinstance(value, exp.Literal):
        if value.is_string and target == TEXT:
            return value.name
        if not value.is_string and target in (INT, BIGINT, DOUBLE) and number(value.name)[1] == target:
            return number(value.name)[0]
    if isinstance(value, exp.Array):
        return _array(value, target, name, statement, binder)
    bound = binder.bind(value, Scope())
    bound = _assigned(binder, bound, target, name, value, statement)
    if isinstance(bound, Const):
        return bound.value
    computed = evaluate(_kernel(bound, value, statement), {}, 1)
    return _plain(computed[0].as_py(), target)


def _array(value: exp.Array, target: Type, name: str, statement: Insert, binder: ExpressionBinder) -> list[Any]:
    if target.kind != "ARRAY" or target.element is None:
        failure = error("type_mismatch", detail=f'column "{name}" is {target}, this is an ARRAY')
        statement.fail(span_of(value), failure)
    return [_constant(item, target.element, name, statement, binder) for item in value.expressions]


def _assigned(
    binder: ExpressionBinder, bound: exp.Expr, target: Type, name: str, at: exp.Expr, statement: Insert | Update
) -> exp.Expr:
    """A value as its column stores it: PostgreSQL's assignment casts, a clear error for anything else."""
    found = external(type_of(bound))
    if isinstance(bound, Const):
        try:
            return constant(convert(bound.value, type_of(bound), target, assign=True), target, bound)
        except PenstockError as failure:
            failure.message = f'column "{name}" is {target}: {failure.message}'
            statement.fail(span_of(at), failure)
    if found != target and meet(found, target) is None and target != TEXT:
        detail = f'column "{name}" is {target}, this is {show(type_of(bound))}'
        statement.fail(span_of(at), error("type_mismatch", detail=detail, hint="use CAST(... AS ...)"))
    return binder.coerce(bound, target)


def _plain(value: Any, target: Type) -> Any:
    if value is None:
        return None
    if target.kind == "TIMESTAMP":
        return round(value.timestamp() * 1_000_000)
    if target.kind == "DECIMAL":
        return str(value)
    return value.hex() if isinstance(value, bytes) else value


def _table(statement: Insert | Update | Delete, state: CatalogState) -> Table:
    table = state.tables.get(statement.table)
    if table is None:
        known = list(state.tables)
        hint = suggest(statement.table, known)
        if statement.table in state.queries:
            hint = f'"{statement.table}" is a query; rows go into tables'
        statement.fail(statement.name_at, error("table_not_found", table=statement.table, hint=hint))
    return table


def _targets(table: Table) -> dict[str, Type]:
    """What may be written: the static columns and, for a sensor table, its address."""
    targets = {column.name: column.type for column in table.columns}
    if table.stream is not None:
        targets[table.stream.name] = TEXT
    return targets


def _scope(table: Table, alias: str | None) -> Scope:
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


def _unknown(table: Table, name: str) -> PenstockError:
    fields = [f.name for f in table.stream.fields] if table.stream is not None else []
    hint: str | None
    if name in fields or name == "ts":
        hint = "readings come from sensors or are pushed; rows hold static columns and the address"
    else:
        hint = suggest(name, _targets(table))
    return error("column_not_found", table=table.name, column=name, hint=hint)
