"""CREATE STREAM TYPE, TABLE and FUNCTION, ALTER TABLE and DROP."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import Table
from penstock.errors import PenstockError, error, suggest
from penstock.expr.user_functions import check_function
from penstock.sensors.registry import validate_connector, validate_table
from penstock.sql import statements as st
from penstock.sql.definitions import bind_add_column, bind_create_function, bind_create_stream_type, bind_create_table
from penstock.statements.replies import done, matching
from penstock.views.results import Result


def create_stream_type(catalog: Catalog, statement: st.CreateStreamType) -> Result:
    found = bind_create_stream_type(statement)
    if found.connector is not None:
        validate_connector(found.connector, found.options, found.fields)
    catalog.create_stream_type(found, statement.if_not_exists)
    return done("CREATE STREAM TYPE")


def create_table(catalog: Catalog, statement: st.CreateTable) -> Result:
    name, columns, key, stream, options = bind_create_table(statement, catalog.state)
    validate_table(Table(0, name, columns, key, stream, options))
    catalog.create_table(name, columns, key, stream, options, statement.if_not_exists)
    return done("CREATE TABLE")


def create_function(catalog: Catalog, statement: st.CreateFunction) -> Result:
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


def add_column(catalog: Catalog, statement: st.AddColumn) -> Result:
    table, column, to_stream = bind_add_column(statement, catalog.state)
    catalog.add_column(table.name, column, to_stream)
    return done("ALTER TABLE")


def drop(catalog: Catalog, statement: st.Drop) -> Result:
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
