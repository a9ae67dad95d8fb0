"""The tables of the projection, and how definitions and static rows are written to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from sqlalchemy import BigInteger, Column, ColumnElement, Delete, Integer, MetaData, Text, bindparam, delete, insert
from sqlalchemy import Table as SqlTable
from sqlalchemy.engine import Connection

from penstock.catalog.encoding import (
    function_to_json,
    quarantined_by,
    query_entry,
    sink_to_json,
    stream_type_to_json,
    table_to_json,
)
from penstock.catalog.journal import Entry
from penstock.catalog.rollup_records import rollup_to_json
from penstock.catalog.secrets import PLAIN_KEY, shown_address, shown_options
from penstock.catalog.state import CatalogState

INVISIBLE = ("observe", "retain", "close_rollup", "lost")  # kinds of entries that change nothing in these tables
METADATA = MetaData()
MARK = SqlTable(
    "penstock_mark",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("folder_id", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("at_us", BigInteger, nullable=False),
)
DEFINITIONS = SqlTable(
    "penstock_definitions",
    METADATA,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("body", Text, nullable=False),
)
ROWS = SqlTable(
    "penstock_rows",
    METADATA,
    Column("table_name", Text, primary_key=True),
    Column("sid", BigInteger, primary_key=True, autoincrement=False),
    Column("address", Text),
    Column("body", Text, nullable=False),
)
_DEFINED = {
    "create_stream_type": "stream_type",
    "create_function": "function",
    "create_rollup": "rollup",
    **dict.fromkeys(("create_query", "change_query", "describe_query"), "query"),
    **dict.fromkeys(("create_sink", "change_sink"), "sink"),
}


def _by(*columns: Column[Any]) -> list[ColumnElement[bool]]:
    """Each column equals the parameter `the_` and its name."""
    return [column == bindparam(f"the_{column.name}") for column in columns]


_DELETE_DEFINITION = delete(DEFINITIONS).where(*_by(DEFINITIONS.c.kind, DEFINITIONS.c.name))
_DELETE_ROWS = delete(ROWS).where(*_by(ROWS.c.table_name))
_DELETE_ROW = delete(ROWS).where(*_by(ROWS.c.table_name, ROWS.c.sid))


def write_state(connection: Connection, state: CatalogState) -> None:
    """Write everything anew."""
    for table in (DEFINITIONS, ROWS):
        connection.execute(delete(table))
    _put_definitions(connection, state, _all_names(state))
    for table_id in state.tables_by_id:
        _put_rows(connection, state, table_id, state.rows(table_id).live_sids())


def follow_entries(connection: Connection, entries: Sequence[Entry], state: CatalogState) -> None:
    """Write anew whatever the entries touched, as the state has it now."""
    names: dict[tuple[str, str], None] = {}
    emptied: dict[str, None] = {}
    sids: dict[int, dict[int, None]] = {}
    for entry in entries:
        body = entry.body
        if entry.kind in _DEFINED:
            names[_DEFINED[entry.kind], body["name"]] = None
        elif entry.kind in ("create_table", "alter_table"):
            names["table", body["name"]] = None
            emptied[body["name"]] = None
        elif entry.kind == "quarantine":
            known = state.queries_by_id
            names |= {("query", known[q].name): None for q in quarantined_by(entry) if q in known}
        elif entry.kind == "drop":
            names |= dict.fromkeys((kind, name) for kind, name in body["names"])
            emptied |= {name: None for kind, name in body["names"] if kind == "table"}
        elif entry.kind not in INVISIBLE and body["table"] in state.tables_by_id:
            sids.setdefault(body["table"], {}).update(dict.fromkeys(_touched(entry, state)))
    _delete_all(connection, _DELETE_DEFINITION, ({"the_kind": kind, "the_name": name} for kind, name in names))
    _put_definitions(connection, state, names)
    _delete_all(connection, _DELETE_ROWS, ({"the_table_name": name} for name in emptied))
    for table_id, table in state.tables_by_id.items():
        if table.name in emptied:
            _put_rows(connection, state, table_id, state.rows(table_id).live_sids())
        elif table_id in sids:
            touched = sids[table_id]
            _delete_all(connection, _DELETE_ROW, ({"the_table_name": table.name, "the_sid": sid} for sid in touched))
            _put_rows(connection, state, table_id, [s for s in touched if state.rows(table_id).is_live(s)])


def _touched(entry: Entry, state: CatalogState) -> Iterable[int]:
    if entry.kind == "delete_rows":
        return [int(sid) for sid in entry.body["sids"]]
    if entry.kind == "update_rows":
        return [int(sid) for sid, _ in entry.body["rows"]]
    return state.rows(entry.body["table"]).sids_born_at(entry.pos)


def _all_names(state: CatalogState) -> list[tuple[str, str]]:
    known = (
        ("stream_type", state.stream_types),
        ("table", state.tables),
        ("function", state.functions),
        ("query", state.queries),
        ("rollup", state.rollups),
        ("sink", state.sinks),
    )
    return [(kind, name) for kind, names in known for name in names]


def _without_secrets(stream: dict[str, Any]) -> dict[str, Any]:
    """Others read this database: the journal alone knows secrets."""
    plain = PLAIN_KEY if stream["connector"] == "mqtt" else ()
    return {**stream, "options": shown_options(stream["options"], plain)}


def _put_definitions(connection: Connection, state: CatalogState, names: Iterable[tuple[str, str]]) -> None:
    rows = []
    for kind, name in names:
        body: dict[str, Any] | None = None
        if kind == "stream_type" and name in state.stream_types:
            body = _without_secrets(stream_type_to_json(state.stream_types[name]))
        elif kind == "table" and name in state.tables:
            body = table_to_json(state.tables[name])
            body["stream"] = _without_secrets(body["stream"]) if body["stream"] is not None else None
        elif kind == "function" and name in state.functions:
            body = function_to_json(state.functions[name])
        elif kind == "query" and name in state.queries:
            body = query_entry(state.queries[name])
        elif kind == "rollup" and name in state.rollups:
            body = rollup_to_json(state.rollups[name])
        elif kind == "sink" and name in state.sinks:
            body = sink_to_json(state.sinks[name])
            body["options"] = shown_options(body["options"], PLAIN_KEY)
        if body is not None:
            rows.append({"kind": kind, "name": name, "body": orjson.dumps(body).decode()})
    if rows:
        connection.execute(insert(DEFINITIONS), rows)


def _put_rows(connection: Connection, state: CatalogState, table_id: int, sids: Iterable[int]) -> None:
    table, static = state.tables_by_id[table_id], state.rows(table_id)
    names = [c.name for c in table.columns]
    rows = []
    for sid in sids:
        *values, address = static.current_values(sid)
        body = orjson.dumps(dict(zip(names, values, strict=True))).decode()
        # PostgreSQL's text has no NUL; the body, as JSON, spells it.
        shown = address if address is None else address.replace("\0", "\ufffd")
        rows.append(
            {"table_name": table.name, "sid": sid, "address": shown_address(shown) if shown else shown, "body": body}
        )
    if rows:
        connection.execute(insert(ROWS), rows)


def _delete_all(connection: Connection, statement: Delete, keys: Iterable[dict[str, Any]]) -> None:
    given = list(keys)
    if given:
        connection.execute(statement, given)
