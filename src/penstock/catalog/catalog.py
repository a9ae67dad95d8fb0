"""The catalog's one writer: checks a definition, journals it, applies it, projects it, tells who listens."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.catalog.encoding import (
    function_to_json,
    query_to_json,
    stream_type_to_json,
    table_to_json,
)
from penstock.catalog.journal import Entry, JournalWriter
from penstock.catalog.model import Function, QueryDefinition, StreamColumn, StreamType, Table, TableOptions
from penstock.catalog.projection import Projection
from penstock.catalog.state import CatalogState, load_state
from penstock.clock import Clock
from penstock.errors import error, suggest
from penstock.types import Field

_log = logging.getLogger("penstock.catalog")
Still = Callable[[], AbstractContextManager[dict[int, int]]]


@dataclass(frozen=True, slots=True)
class NewQuery:
    """A standing query as it is handed to the catalog."""

    name: str
    sql: str
    plan: dict[str, object]
    reads_tables: tuple[str, ...]
    reads_queries: tuple[str, ...] = ()
    reads_functions: tuple[str, ...] = ()
    start_us: int | None = None


class Catalog:
    """Definitions of one data folder. Thread-safe; `state` is only ever changed here."""

    def __init__(self, folder: Path, projection_url: str, still: Still, clock: Clock) -> None:
        self._still = still
        self._clock = clock
        self._lock = threading.RLock()
        self._writer = JournalWriter(folder)
        self.state: CatalogState = load_state(folder)
        self.listeners: list[Callable[[Entry], None]] = []
        self._projection = Projection(folder, projection_url)
        self._projection.catch_up(self.state)

    def close(self) -> None:
        with self._lock:
            self._projection.close()
            self._writer.close()

    # -- definitions

    def create_stream_type(self, found: StreamType, if_not_exists: bool = False) -> None:
        with self._lock:
            if self._exists("stream type", found.name, self.state.stream_types, if_not_exists):
                return
            self._write("create_stream_type", stream_type_to_json(found))

    def create_table(
        self,
        name: str,
        columns: tuple[Field, ...],
        key: tuple[str, ...],
        stream: StreamColumn | None,
        options: TableOptions,
        if_not_exists: bool = False,
    ) -> Table:
        with self._lock:
            if self._exists("table", name, self.state.tables, if_not_exists):
                return self.state.tables[name]
            if name in self.state.queries:
                raise error("already_exists", kind="query", name=name)
            table = Table(self.state.next_table_id, name, columns, key, stream, options)
            entries = [("create_table", table_to_json(table))]
            if stream is not None and not columns:
                # Without static columns there is nothing to tell sensors apart by: the table is one sensor.
                entries.append(("insert_rows", {"table": table.id, "rows": [[None]]}))
            self._write_many(entries)
            return table

    def add_column(self, table: str, column: Field, to_stream: bool) -> Table:
        with self._lock:
            found = self._table(table)
            if to_stream:
                assert found.stream is not None
                if column.name in {f.name for f in found.stream.fields}:
                    raise error("already_exists", kind="field", name=column.name)
                changed = replace(found, stream=replace(found.stream, fields=(*found.stream.fields, column)))
            else:
                if column.name in {c.name for c in found.columns}:
                    raise error("already_exists", kind="column", name=column.name)
                changed = replace(found, columns=(*found.columns, column))
            self._write("alter_table", table_to_json(changed))
            return changed

    def create_function(self, function: Function) -> None:
        with self._lock:
            self._exists("function", function.name, self.state.functions, False)
            self._write("create_function", function_to_json(function))

    def create_query(
        self,
        name: str,
        sql: str,
        plan: dict[str, object],
        reads_tables: tuple[str, ...],
        reads_queries: tuple[str, ...] = (),
        reads_functions: tuple[str, ...] = (),
        start_us: int | None = None,
    ) -> QueryDefinition:
        new = NewQuery(name, sql, plan, reads_tables, reads_queries, reads_functions, start_us)
        return self.create_queries([new])[0]

    def create_queries(self, queries: Sequence[NewQuery]) -> list[QueryDefinition]:
        """All of them with one sync, or none."""
        with self._lock:
            made: list[QueryDefinition] = []
            for query in queries:
                self._exists("query", query.name, {**self.state.queries, **{q.name: 0 for q in made}}, False)
                if query.name in self.state.tables:
                    raise error("already_exists", kind="table", name=query.name)
                made.append(
                    QueryDefinition(
                        id=self.state.next_query_id + len(made),
                        name=query.name,
                        sql=query.sql,
                        plan=query.plan,
                        reads_tables=query.reads_tables,
                        reads_queries=query.reads_queries,
                        reads_functions=query.reads_functions,
                        start_us=query.start_us,
                    )
                )
            self._write_many([("create_query", query_to_json(q)) for q in made])
            return made

    def change_query(
        self,
        name: str,
        sql: str | None = None,
        plan: dict[str, object] | None = None,
        paused: bool | None = None,
    ) -> QueryDefinition:
        """A new window, or pause and resume; the query stays the same one."""
        with self._lock:
            known = self.state.queries.get(name)
            if known is None:
                raise error("query_not_found", query=name, hint=suggest(name, self.state.queries))
            changed = replace(
                known,
                sql=known.sql if sql is None else sql,
                plan=known.plan if plan is None else plan,
                paused=known.paused if paused is None else paused,
            )
            if changed != known:
                self._write("change_query", query_to_json(changed))
            return changed

    def drop(self, kind: str, name: str, cascade: bool = False, if_exists: bool = False) -> list[str]:
        """Drop a table, stream_type, function or query; with CASCADE also what uses it. What was dropped."""
        with self._lock:
            known: Mapping[str, Mapping[str, object]] = {
                "table": self.state.tables,
                "stream_type": self.state.stream_types,
                "function": self.state.functions,
                "query": self.state.queries,
            }
            if name not in known[kind]:
                if if_exists:
                    return []
                raise error(f"{kind}_not_found", **{kind: name}, hint=suggest(name, known[kind]))
            names = self._with_dependents(kind, name)
            if len(names) > 1 and not cascade:
                raise error(
                    "dependents_exist",
                    kind=kind.replace("_", " "),
                    name=name,
                    dependents=", ".join(self.state.dependents(kind, name)),
                    hint="drop them first, or add CASCADE",
                )
            self._write("drop", {"names": [list(n) for n in names]})
            return [f'{k.replace("_", " ")} "{n}"' for k, n in names]

    def _with_dependents(self, kind: str, name: str) -> list[tuple[str, str]]:
        """The thing and everything that would not live without it, users first."""
        ordered: list[tuple[str, str]] = []

        def visit(each: tuple[str, str]) -> None:
            if each in ordered:
                return
            for user in self.state.dependent_names(*each):
                visit(user)
            ordered.append(each)

        visit((kind, name))
        return ordered

    # -- static rows

    def insert_rows(self, table: str, rows: Sequence[Sequence[Any]]) -> int:
        """Rows of static values in order of the columns; for a sensor table the address stands last."""
        with self._lock:
            found = self._table(table)
            width = len(found.columns) + (1 if found.stream is not None else 0)
            seen: set[tuple[Any, ...]] = set()
            static = self.state.rows(found.id)
            for row in rows:
                if len(row) != width:
                    raise error("type_mismatch", detail=f"a row of {table} has {width} values, not {len(row)}")
                self._check_key(found, tuple(row), seen)
                if static.has_key(tuple(row)):
                    raise self._duplicate(found, tuple(row))
            body = [list(r) if found.stream is not None else [*r, None] for r in rows]
            if body:
                self._write("insert_rows", {"table": found.id, "rows": body})
            return len(body)

    def update_rows(self, table: str, changes: Mapping[int, Sequence[Any]]) -> int:
        """New static values (and address) for live sids."""
        with self._lock:
            found = self._table(table)
            static = self.state.rows(found.id)
            seen: set[tuple[Any, ...]] = set()
            rows = []
            for sid, values in changes.items():
                row = tuple(values) if found.stream is not None else (*values, None)
                self._check_key(found, row, seen)
                taken = static.vid_of(static.key_of(row)) if found.key else None
                if taken is not None and int(static.sids[taken]) not in changes:
                    raise self._duplicate(found, row)
                rows.append([int(sid), list(row)])
            if rows:
                self._write("update_rows", {"table": found.id, "rows": rows})
            return len(rows)

    def delete_rows(self, table: str, sids: Iterable[int]) -> int:
        with self._lock:
            found = self._table(table)
            gone = [int(s) for s in sids]
            if gone:
                self._write("delete_rows", {"table": found.id, "sids": gone})
            return len(gone)

    def observe(self, table_id: int, opened: Sequence[int], closed: Sequence[int]) -> None:
        """Sensors were opened or closed: from then on, or up to then, an answer is complete."""
        with self._lock:
            if table_id in self.state.tables_by_id and (opened or closed):
                body = {"table": table_id, "opened": [int(s) for s in opened], "closed": [int(s) for s in closed]}
                self._write("observe", body)

    def retain(self, table_id: int, position: int) -> None:
        """Rows below the position are gone from now on."""
        with self._lock:
            if position > self.state.retention(table_id):
                self._write("retain", {"table": table_id, "position": position})

    # -- inside

    def _write(self, kind: str, body: dict[str, Any]) -> None:
        self._write_many([(kind, body)])

    def _write_many(self, entries: Sequence[tuple[str, dict[str, Any]]]) -> None:
        if not entries:
            return
        with self._still() as heads:
            made = self._writer.append_many(entries, heads, self._clock.now_us())
            for entry in made:
                self.state.apply(entry)
        try:
            self._projection.take(made, self.state)
        except Exception as failure:
            # The journal is the truth; the projection catches up from it.
            _log.warning("the catalog's projection is behind: %s", failure)
        for entry in made:
            for listener in list(self.listeners):
                listener(entry)

    def _table(self, name: str) -> Table:
        found = self.state.tables.get(name)
        if found is None:
            raise error("table_not_found", table=name, hint=suggest(name, self.state.tables))
        return found

    def _exists(self, kind: str, name: str, known: Mapping[str, object], tolerated: bool) -> bool:
        if name not in known:
            return False
        if tolerated:
            return True
        raise error("already_exists", kind=kind, name=name)

    def _check_key(self, table: Table, row: tuple[Any, ...], seen: set[tuple[Any, ...]]) -> None:
        if not table.key:
            return
        key = self.state.rows(table.id).key_of(row)
        for name, value in zip(table.key, key, strict=True):
            if value is None:
                raise error("not_null_violation", column=name, table=table.name)
        if key in seen:
            raise self._duplicate(table, row)
        seen.add(key)

    def _duplicate(self, table: Table, row: tuple[Any, ...]) -> Exception:
        key = self.state.rows(table.id).key_of(row)
        shown = ", ".join(f"{n} = {v!r}" for n, v in zip(table.key, key, strict=True))
        return error("unique_violation", table=table.name, key=shown)
