"""CREATE STREAM TYPE, TABLE, FUNCTION and ROLLUP, ALTER TABLE and DROP; INSERT, UPDATE and DELETE of static rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.catalog.catalog import Catalog
from penstock.catalog.definition_checks import missing
from penstock.catalog.model import Table, plan_text
from penstock.errors import PenstockError, error
from penstock.expr.code_workers import CODE_WORKERS
from penstock.expr.evaluate import evaluate, evaluate_mask
from penstock.expr.expression import Expr
from penstock.expr.user_aggregates import check_aggregate
from penstock.expr.user_functions import check_function
from penstock.sensors.registry import check_addresses, validate_connector, validate_table
from penstock.sql import statements as st
from penstock.sql.definitions import (
    bind_add_column,
    bind_alter_lateness,
    bind_create_function,
    bind_create_stream_type,
    bind_create_table,
)
from penstock.sql.rollups import bind_create_rollup
from penstock.sql.row_changes import bind_delete, bind_insert, bind_update
from penstock.statements.query_statements import stored
from penstock.statements.session import Session, done, matching
from penstock.streams.log.segments import list_what_is_there
from penstock.streams.maintenance import own_now
from penstock.views.results import Result


def create_stream_type(session: Session, statement: st.CreateStreamType) -> Result:
    found = bind_create_stream_type(statement)
    if found.connector is not None:
        validate_connector(found.connector, found.options, found.fields)
    session.catalog.create_stream_type(found, statement.if_not_exists)
    return done("CREATE STREAM TYPE")


def create_table(session: Session, statement: st.CreateTable) -> Result:
    table = bind_create_table(statement, session.catalog.state)
    validate_table(table)
    session.catalog.create_table(table, statement.if_not_exists)
    return done("CREATE TABLE")


def create_function(session: Session, statement: st.CreateFunction) -> Result:
    """CREATE FUNCTION and CREATE AGGREGATE. A code worker finds out whether an aggregate merges."""
    catalog = session.catalog
    function = bind_create_function(statement)
    created = done("CREATE FUNCTION" if function.state is None else "CREATE AGGREGATE")
    if function.state is None:
        check_function(function)
    else:
        check_aggregate(function)
    if statement.if_not_exists and statement.name in catalog.state.functions:
        return created
    if function.state is not None:
        CODE_WORKERS.check(function)
    if statement.or_replace and statement.name in catalog.state.functions:
        # The plans of its queries have an aggregate's code.
        if function.state is None and catalog.replace_function(function):
            return created
        # Refused while a query uses it: its earlier answers would mean something else.
        try:
            catalog.drop("function", [statement.name])
        except PenstockError as failure:
            if failure.condition == "dependents_exist":
                failure.hint = "drop them first, or create a function with another name"
            raise
    catalog.create_function(function)
    return created


def add_column(session: Session, statement: st.AddColumn) -> Result:
    catalog = session.catalog
    table, column, to_stream = bind_add_column(statement, catalog.state)
    catalog.add_column(table.name, column, to_stream)
    return done("ALTER TABLE")


def alter_lateness(session: Session, statement: st.AlterLateness) -> Result:
    table, lateness_us = bind_alter_lateness(statement, session.catalog.state)
    session.catalog.change_lateness(table.name, lateness_us, session.log.newest_us)
    return done("ALTER TABLE")


def drop(session: Session, statement: st.Drop) -> Result:
    catalog = session.catalog
    kind = statement.kind
    tag = f"DROP {kind.replace('_', ' ').upper()}"
    names: list[str] | tuple[str, ...] = statement.names
    if statement.like is not None:
        names = matching(statement.like, catalog.state.queries)
    elif not statement.if_exists:
        _point_at_missing(catalog, statement)
    dropped = catalog.drop(kind, names, statement.cascade, statement.if_exists)
    asked_for = {f'{kind.replace("_", " ")} "{name}"' for name in names}
    also = [d for d in dropped if d not in asked_for]
    notices = (f"also dropped: {', '.join(also)}",) if also else ()
    many = statement.like is not None or len(names) > 1
    return done(f"{tag} {len(dropped) - len(also)}" if many else tag, notices)


def _point_at_missing(catalog: Catalog, statement: st.Drop) -> None:
    """Of several names the caret stands under the one that is not there."""
    known = catalog.state.named(statement.kind)
    for name, at in zip(statement.names, statement.names_at, strict=True):
        if name not in known:
            raise statement.source.point(missing(statement.kind, name, known), at)


ROLLUPS_MAX = 100


def create_rollup(session: Session, statement: st.CreateRollup) -> Result:
    state = session.catalog.state.frozen()
    if statement.if_not_exists and statement.name in state.rollups:
        return done("CREATE ROLLUP")
    found, plan = bind_create_rollup(statement, state)
    if len(state.rollups) >= ROLLUPS_MAX:
        raise error("limit_reached", detail=f"this server keeps at most {ROLLUPS_MAX} rollups", hint="drop some")
    since_us = _all_there_since(session, state.tables_by_id[found.table_id])
    rollup = replace(found, stored_plan=plan_text(stored(plan)), since_us=since_us)
    session.catalog.create_rollup(rollup, statement.if_not_exists)
    return done("CREATE ROLLUP")


def _all_there_since(session: Session, table: Table) -> int | None:
    """From which time on retention cannot have taken anything yet."""
    segments = list_what_is_there(session.folder.log, table.id)
    if not segments or table.options.retention_us is None:
        return None
    return own_now(table, segments, session.clock) - table.options.retention_us


def insert(session: Session, statement: st.Insert) -> Result:
    rows = bind_insert(statement, session.catalog.state)
    table = session.catalog_table(statement.table)
    if table.stream is not None:
        check_addresses(table, (row[-1] for row in rows), session.address_rules)
    count = session.catalog.insert_rows(statement.table, rows)
    return done(f"INSERT 0 {count}")


def update(session: Session, statement: st.Update) -> Result:
    assignments, where = bind_update(statement, session.catalog.state)
    table, chosen = _chosen(session, statement.table, where)
    assigned = {name: evaluate(e, chosen, chosen.num_rows) for name, e in assignments.items()}
    names = [c.name for c in table.columns]
    if table.stream is not None:
        names.append("_address")
        if table.stream.name in assigned:
            assigned["_address"] = assigned.pop(table.stream.name)
            check_addresses(table, _plain_values(assigned["_address"]), session.address_rules)
    columns = [_plain_values(assigned.get(n, chosen.column(n))) for n in names]
    sids = chosen.column("_sid").to_pylist()
    changes = {sid: [c[i] for c in columns] for i, sid in enumerate(sids)}
    return done(f"UPDATE {session.catalog.update_rows(statement.table, changes)}")


def delete(session: Session, statement: st.Delete) -> Result:
    where = bind_delete(statement, session.catalog.state)
    _, chosen = _chosen(session, statement.table, where)
    return done(f"DELETE {session.catalog.delete_rows(statement.table, chosen.column('_sid').to_pylist())}")


def _chosen(session: Session, name: str, where: Expr | None) -> tuple[Table, pa.Table]:
    """The table, and its rows that satisfy the condition."""
    table = session.catalog_table(name)
    current = session.catalog.state.rows(table.id).current()
    return table, current.filter(pa.array(evaluate_mask(where, current, current.num_rows)))


def _plain_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values as the journal stores them: times as microseconds, decimals as text, binaries as hex."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_decimal(column.type):
        return [None if v is None else str(v) for v in values]
    return [None if v is None else v.hex() for v in values] if pa.types.is_binary(column.type) else values
