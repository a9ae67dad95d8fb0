"""CREATE STREAM TYPE, TABLE, FUNCTION and ROLLUP, ALTER TABLE and DROP."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import orjson

from penstock.catalog.catalog import Catalog
from penstock.catalog.definition_json import plan_text
from penstock.catalog.model import Table
from penstock.errors import PenstockError, error, suggest
from penstock.expr.user_functions import check_function
from penstock.sensors.registry import validate_connector, validate_table
from penstock.sql import statements as st
from penstock.sql.definitions import bind_add_column, bind_create_function, bind_create_stream_type, bind_create_table
from penstock.sql.plan import plan_to_json
from penstock.sql.rollups import bind_create_rollup
from penstock.statements.replies import done, matching
from penstock.statements.session import Session
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
    catalog = session.catalog
    name, columns, key, stream, options = bind_create_table(statement, catalog.state)
    validate_table(Table(0, name, columns, key, stream, options))
    catalog.create_table(name, columns, key, stream, options, statement.if_not_exists)
    return done("CREATE TABLE")


def create_function(session: Session, statement: st.CreateFunction) -> Result:
    catalog = session.catalog
    function = bind_create_function(statement)
    check_function(function)
    if statement.if_not_exists and statement.name in catalog.state.functions:
        return done("CREATE FUNCTION")
    if statement.or_replace and statement.name in catalog.state.functions:
        if catalog.replace_function(function):
            return done("CREATE FUNCTION")
        # Refused while a query uses it: its earlier answers would mean something else.
        try:
            catalog.drop("function", statement.name)
        except PenstockError as failure:
            if failure.condition == "dependents_exist":
                failure.hint = "drop them first, or create a function with another name"
            raise
    catalog.create_function(function)
    return done("CREATE FUNCTION")


def add_column(session: Session, statement: st.AddColumn) -> Result:
    catalog = session.catalog
    table, column, to_stream = bind_add_column(statement, catalog.state)
    catalog.add_column(table.name, column, to_stream)
    return done("ALTER TABLE")


def drop(session: Session, statement: st.Drop) -> Result:
    catalog = session.catalog
    kind = statement.kind
    tag = f"DROP {kind.replace('_', ' ').upper()}"
    names: Sequence[str] = statement.names
    if statement.like is not None:
        names = matching(statement.like, catalog.state.queries)
    elif not statement.if_exists:
        _point_at_missing(catalog, statement)
    dropped = catalog.drop_many(kind, names, statement.cascade, statement.if_exists)
    asked_for = {f'{kind.replace("_", " ")} "{name}"' for name in names}
    also = [d for d in dropped if d not in asked_for]
    notices = (f"also dropped: {', '.join(also)}",) if also else ()
    many = statement.like is not None or len(names) > 1
    return done(f"{tag} {len(dropped) - len(also)}" if many else tag, notices)


def _point_at_missing(catalog: Catalog, statement: st.Drop) -> None:
    """Of several names the caret stands under the one that is not there."""
    state = catalog.state
    names: dict[str, Collection[str]] = {
        "table": state.tables,
        "stream_type": state.stream_types,
        "function": state.functions,
        "query": state.queries,
        "rollup": state.rollups,
        "sink": state.sinks,
    }
    known = names[statement.kind]
    for name, at in zip(statement.names, statement.names_at, strict=True):
        if name not in known:
            missing = error(f"{statement.kind}_not_found", **{statement.kind: name}, hint=suggest(name, known))
            raise statement.source.point(missing, at)


ROLLUPS_MAX = 100


def create_rollup(session: Session, statement: st.CreateRollup) -> Result:
    state = session.catalog.state.frozen()
    if statement.if_not_exists and statement.name in state.rollups:
        return done("CREATE ROLLUP")
    found, plan = bind_create_rollup(statement, state)
    if len(state.rollups) >= ROLLUPS_MAX:
        raise error("limit_reached", detail=f"this server keeps at most {ROLLUPS_MAX} rollups", hint="drop some")
    body = plan_to_json(plan)
    try:
        orjson.dumps([[[body]]])  # an entry has it in its body
    except TypeError:
        raise error("syntax_error", detail="the question is nested too deeply") from None
    since_us = _all_there_since(session, state.tables_by_id[found.table_id])
    session.catalog.create_rollup(
        replace(found, stored_plan=plan_text(body), since_us=since_us), statement.if_not_exists
    )
    return done("CREATE ROLLUP")


def _all_there_since(session: Session, table: Table) -> int | None:
    """From which time on retention cannot have taken anything yet."""
    segments = list_what_is_there(session.folder.log, table.id)
    if not segments or table.options.retention_us is None:
        return None
    return own_now(table, segments, session.clock) - table.options.retention_us
