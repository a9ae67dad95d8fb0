"""The journal's projection into SQLite or PostgreSQL: for look-ups with any SQL tool, never for truth.

It follows the journal entry by entry. Behind, of another folder, ahead or damaged, it is made anew from the
state; while its database cannot be reached it stays behind and the catalog goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Delete,
    Integer,
    MetaData,
    Text,
    bindparam,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy import Table as SqlTable
from sqlalchemy.engine import Connection, Engine

from penstock.catalog.encoding import (
    function_to_json,
    query_entry,
    sink_to_json,
    stream_type_to_json,
    table_to_json,
)
from penstock.catalog.journal import Entry
from penstock.catalog.projection_engine import make_engine, remove_damaged
from penstock.catalog.rollup_records import rollup_to_json
from penstock.catalog.secrets import shown_options
from penstock.catalog.state import CatalogState

_log = logging.getLogger("penstock.catalog")
_metadata = MetaData()
MARK = SqlTable(
    "penstock_mark",
    _metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("folder_id", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("at_us", BigInteger, nullable=False),
)
DEFINITIONS = SqlTable(
    "penstock_definitions",
    _metadata,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("body", Text, nullable=False),
)
ROWS = SqlTable(
    "penstock_rows",
    _metadata,
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
    # Parameters of an update may not have the names of the columns they are compared with.
    return [column == bindparam(f"the_{column.name}") for column in columns]


_MOVE_MARK = (
    update(MARK)
    .where(*_by(MARK.c.folder_id, MARK.c.position, MARK.c.at_us))
    .values(position=bindparam("position"), at_us=bindparam("at_us"))
)
_DELETE_DEFINITION = delete(DEFINITIONS).where(*_by(DEFINITIONS.c.kind, DEFINITIONS.c.name))
_DELETE_ROWS = delete(ROWS).where(*_by(ROWS.c.table_name))
_DELETE_ROW = delete(ROWS).where(*_by(ROWS.c.table_name, ROWS.c.sid))
_INVISIBLE = ("observe", "retain", "close_rollup")
# After a failure that took this long, callers are not made to wait for another one at once.
_SLOW_S = 1.0
_PAUSE_S = 30.0


class Projection:
    """Definitions and live static rows as relational tables. Not thread-safe: the catalog's lock is around it."""

    def __init__(self, folder: Path, url: str) -> None:
        mark = folder / "folder_id"
        self._folder_id = mark.read_text().strip() if mark.exists() else ""
        self._file = folder / "catalog.sqlite" if not url else None
        self._engine: Engine = make_engine(url, self._file)
        self._stored: tuple[int, int] | None = None  # position and time in the mark; None: look before writing
        self._pending: tuple[int, int] | None = None  # the same, of entries that change nothing here
        self._ready = False
        self._not_before = 0.0

    def close(self) -> None:
        """Leave the mark where the journal is, so that the next start has nothing to do."""
        if self._stored is not None and self._pending is not None:
            try:
                with self._engine.begin() as connection:
                    self._move_mark(connection, self._pending)
            except Exception as failure:
                _log.warning("the catalog's projection is behind: %s", _first_line(failure))
        self._engine.dispose()

    def catch_up(self, state: CatalogState) -> None:
        """Make it stand for the state, from scratch where it does not already. Never fails: it may stay behind."""
        self._try(lambda: self._rebuild(state))

    def take(self, entries: Sequence[Entry], state: CatalogState) -> None:
        """Follow entries that the state has just taken in. Never fails: what it misses it gets with a later one."""
        here = (entries[-1].pos, entries[-1].at_us)
        if self._stored is not None and all(e.kind in _INVISIBLE for e in entries):
            self._pending = here
            return
        self._try(lambda: self._follow(entries, state, here))

    def _try(self, work: Any) -> None:
        began = time.monotonic()
        if began < self._not_before:
            return
        try:
            work()
        except Exception as failure:
            self._stored = self._pending = None
            if time.monotonic() - began > _SLOW_S:
                self._not_before = time.monotonic() + _PAUSE_S
            _log.warning("the catalog's projection is behind: %s", _first_line(failure))

    # -- from scratch

    def _rebuild(self, state: CatalogState) -> None:
        here = (state.position, state.at_us)
        try:
            self._prepare()
            if self._read_mark() == here:
                self._stored, self._pending = here, None
                return
            self._write_all(state, here)
        except Exception as failure:
            if self._file is None or not remove_damaged(self._engine, self._file, failure):
                raise
            self._ready = False
            self._prepare()
            self._write_all(state, here)
        self._stored, self._pending = here, None

    def _prepare(self) -> None:
        if not self._ready:
            _metadata.create_all(self._engine)
            self._ready = True

    def _read_mark(self) -> tuple[int, int] | None:
        """How far it has come; None where it belongs to another folder or to none."""
        with self._engine.connect() as connection:
            found = connection.execute(select(MARK.c.folder_id, MARK.c.position, MARK.c.at_us)).first()
        return (found.position, found.at_us) if found is not None and found.folder_id == self._folder_id else None

    def _write_all(self, state: CatalogState, here: tuple[int, int]) -> None:
        with self._engine.begin() as connection:
            for table in (MARK, DEFINITIONS, ROWS):
                connection.execute(delete(table))
            _put_definitions(connection, state, _all_names(state))
            for table_id in state.tables_by_id:
                _put_rows(connection, state, table_id, state.rows(table_id).live_sids())
            mark = {"id": 1, "folder_id": self._folder_id, "position": here[0], "at_us": here[1]}
            connection.execute(insert(MARK), [mark])

    # -- entry by entry

    def _follow(self, entries: Sequence[Entry], state: CatalogState, here: tuple[int, int]) -> None:
        if self._stored is None:
            self._rebuild(state)
            return
        with self._engine.begin() as connection:
            moved = self._move_mark(connection, here)
            if moved:
                _follow_entries(connection, entries, state)
        if moved:
            self._stored, self._pending = here, None
        else:
            self._rebuild(state)

    def _move_mark(self, connection: Connection, here: tuple[int, int]) -> bool:
        """Whether nobody else has written here since we did; then the mark is ours to move."""
        assert self._stored is not None
        ours = (
            MARK.c.folder_id == self._folder_id,
            MARK.c.position == self._stored[0],
            MARK.c.at_us == self._stored[1],
        )
        moved = connection.execute(update(MARK).where(*ours).values(position=here[0], at_us=here[1]))
        return bool(moved.rowcount == 1)


def _follow_entries(connection: Connection, entries: Sequence[Entry], state: CatalogState) -> None:
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
        elif entry.kind == "drop":
            names |= dict.fromkeys((kind, name) for kind, name in body["names"])
            emptied |= {name: None for kind, name in body["names"] if kind == "table"}
        elif body["table"] in state.tables_by_id and entry.kind not in _INVISIBLE:
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


def _put_definitions(connection: Connection, state: CatalogState, names: Iterable[tuple[str, str]]) -> None:
    rows = []
    for kind, name in names:
        body: dict[str, Any] | None = None
        if kind == "stream_type" and name in state.stream_types:
            body = stream_type_to_json(state.stream_types[name])
        elif kind == "table" and name in state.tables:
            body = table_to_json(state.tables[name])
        elif kind == "function" and name in state.functions:
            body = function_to_json(state.functions[name])
        elif kind == "query" and name in state.queries:
            body = query_entry(state.queries[name])
        elif kind == "rollup" and name in state.rollups:
            body = rollup_to_json(state.rollups[name])
        elif kind == "sink" and name in state.sinks:
            # Others read this database: the journal alone knows secrets.
            body = sink_to_json(state.sinks[name])
            body["options"] = shown_options(body["options"])
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
        rows.append({"table_name": table.name, "sid": sid, "address": shown, "body": body})
    if rows:
        connection.execute(insert(ROWS), rows)


def _delete_all(connection: Connection, statement: Delete, keys: Iterable[dict[str, Any]]) -> None:
    given = list(keys)
    if given:
        connection.execute(statement, given)


def _first_line(failure: Exception) -> str:
    return str(failure).partition("\n")[0]
