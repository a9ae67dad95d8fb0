"""The journal's projection into SQLite or PostgreSQL: for look-ups with any SQL tool, never for truth.

It follows the journal entry by entry. Behind, it catches up; of another folder or ahead, it is made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Text, create_engine, delete, insert, select
from sqlalchemy import Table as SqlTable
from sqlalchemy.engine import Connection

from penstock.catalog.encoding import function_to_json, query_to_json, stream_type_to_json, table_to_json
from penstock.catalog.journal import Entry
from penstock.catalog.state import CatalogState

_metadata = MetaData()
_mark = SqlTable(
    "penstock_mark",
    _metadata,
    Column("id", Integer, primary_key=True),
    Column("folder_id", String(64), nullable=False),
    Column("position", BigInteger, nullable=False),
)
_definitions = SqlTable(
    "penstock_definitions",
    _metadata,
    Column("kind", String(32), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("body", Text, nullable=False),
)
_rows = SqlTable(
    "penstock_rows",
    _metadata,
    Column("table_name", String(255), primary_key=True),
    Column("sid", BigInteger, primary_key=True),
    Column("address", Text),
    Column("body", Text, nullable=False),
)
_ROW_KINDS = ("insert_rows", "update_rows", "delete_rows")


class Projection:
    """Definitions and live static rows as relational tables."""

    def __init__(self, folder: Path, url: str) -> None:
        mark = folder / "folder_id"
        self._folder_id = mark.read_text().strip() if mark.exists() else ""
        self._engine = create_engine(url or f"sqlite:///{folder / 'catalog.sqlite'}")
        _metadata.create_all(self._engine)

    def close(self) -> None:
        self._engine.dispose()

    def position(self) -> int | None:
        """How far it has come; None where it belongs to another folder or to none."""
        with self._engine.connect() as connection:
            found = connection.execute(select(_mark.c.folder_id, _mark.c.position)).first()
        return int(found.position) if found is not None and found.folder_id == self._folder_id else None

    def catch_up(self, state: CatalogState) -> None:
        """Make it stand for the state, from scratch where it does not already."""
        if self.position() == state.position:
            return
        with self._engine.begin() as connection:
            for table in (_mark, _definitions, _rows):
                connection.execute(delete(table))
            self._put_definitions(connection, state)
            for table_id in state.tables_by_id:
                self._put_rows(connection, state, table_id, state.rows(table_id).live_sids())
            self._put_mark(connection, state.position)

    def take(self, entries: Sequence[Entry], state: CatalogState) -> None:
        """Follow entries that the state has just taken in."""
        if self.position() != entries[0].pos - 1:
            self.catch_up(state)
            return
        with self._engine.begin() as connection:
            if any(e.kind not in (*_ROW_KINDS, "observe", "retain") for e in entries):
                connection.execute(delete(_definitions))
                self._put_definitions(connection, state)
                known = [t.name for t in state.tables.values()]
                connection.execute(delete(_rows).where(_rows.c.table_name.not_in(known)))
            for entry in entries:
                if entry.kind in _ROW_KINDS and entry.body["table"] in state.tables_by_id:
                    self._follow_rows(connection, entry, state)
            self._put_mark(connection, entries[-1].pos)

    def _follow_rows(self, connection: Connection, entry: Entry, state: CatalogState) -> None:
        table_id = entry.body["table"]
        if entry.kind == "delete_rows":
            touched = list(entry.body["sids"])
        elif entry.kind == "update_rows":
            touched = [sid for sid, _ in entry.body["rows"]]
        else:
            static = state.rows(table_id)
            touched = [s for s in static.live_sids() if static.born(s) == entry.pos]
        name = state.tables_by_id[table_id].name
        for first in range(0, len(touched), 500):
            gone = touched[first : first + 500]
            connection.execute(delete(_rows).where(_rows.c.table_name == name, _rows.c.sid.in_(gone)))
        live = set(state.rows(table_id).live_sids())
        self._put_rows(connection, state, table_id, [s for s in touched if s in live])

    def _put_definitions(self, connection: Connection, state: CatalogState) -> None:
        found: list[tuple[str, str, dict[str, Any]]] = [
            *(("stream type", s.name, stream_type_to_json(s)) for s in state.stream_types.values()),
            *(("table", t.name, table_to_json(t)) for t in state.tables.values()),
            *(("function", f.name, function_to_json(f)) for f in state.functions.values()),
            *(("query", q.name, query_to_json(q)) for q in state.queries.values()),
        ]
        if found:
            rows = [{"kind": k, "name": n, "body": orjson.dumps(b).decode()} for k, n, b in found]
            connection.execute(insert(_definitions), rows)

    def _put_rows(self, connection: Connection, state: CatalogState, table_id: int, sids: Sequence[int]) -> None:
        table, static = state.tables_by_id[table_id], state.rows(table_id)
        rows = []
        for sid in sids:
            *values, address = static.current_values(sid)
            body = {c.name: v for c, v in zip(table.columns, values, strict=True)}
            rows.append({"table_name": table.name, "sid": sid, "address": address, "body": orjson.dumps(body).decode()})
        if rows:
            connection.execute(insert(_rows), rows)

    def _put_mark(self, connection: Connection, position: int) -> None:
        connection.execute(delete(_mark))
        connection.execute(insert(_mark), [{"id": 1, "folder_id": self._folder_id, "position": position}])
