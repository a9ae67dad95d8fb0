"""The catalog's one writer: checks a definition, journals it, applies it, projects it, tells who listens."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.catalog.checks import check_added, check_keys, check_required, check_shape, duplicate, plain_rows
from penstock.catalog.dependents import Name, users_by_name, with_all_users
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
from penstock.errors import PenstockError, error, suggest
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
    owner: str | None = None
    description: str | None = None
    strategy: str | None = None


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
            self._exists("query", name, self.state.queries, False)
            if (
                stream is not None
                and stream.stream_type is not None
                and stream.stream_type not in self.state.stream_types
            ):
                raise self._missing("stream_type", stream.stream_type, self.state.stream_types)
            check_shape(columns, key, stream)
            table = Table(self.state.next_table_id, name, columns, key, stream, options)
            entries = [("create_table", table_to_json(table))]
            if stream is not None and not columns:
                # Without static columns there is nothing to tell sensors apart by: the table is one sensor.
                entries.append(("insert_rows", {"table": table.id, "rows": [[None]]}))
            self._write_many(entries)
            return table

    def add_column(self, table: str, column: Field, to_stream: bool) -> Table:
        """A static column, or a field of the stream; older rows and readings have NULL there."""
        if column.required:
            raise error("not_supported", feature="NOT NULL on an added column", hint="older rows have NULL there")
        with self._lock:
            found = self._table(table)
            if to_stream:
                if found.stream is None:
                    raise error("invalid_definition", detail=f'table "{table}" has no stream column')
                if column.name in {f.name for f in found.stream.fields}:
                    raise error("already_exists", kind="field", name=column.name)
                changed = replace(found, stream=replace(found.stream, fields=(*found.stream.fields, column)))
            else:
                if found.stream is not None and not found.key:
                    raise error(
                        "invalid_definition",
                        detail=f'table "{table}" has no static columns, so its one row has no key to be found by',
                    )
                taken = {c.name for c in found.columns} | ({found.stream.name} if found.stream is not None else set())
                if column.name in taken:
                    raise error("already_exists", kind="column", name=column.name)
                changed = replace(found, columns=(*found.columns, column))
            check_added(found, changed, column)
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

    def create_queries(self, queries: Sequence[NewQuery], planned: CatalogState | None = None) -> list[QueryDefinition]:
        """All of them with one sync, or none. `planned`: the catalog that they were planned with, if not this one."""
        with self._lock:
            made: dict[str, QueryDefinition] = {}
            for query in queries:
                self._exists("query", query.name, self.state.queries, False)
                self._exists("query", query.name, made, False)
                self._exists("table", query.name, self.state.tables, False)
                self._check_reads(query, made, planned or self.state)
                made[query.name] = QueryDefinition(
                    id=self.state.next_query_id + len(made),
                    name=query.name,
                    sql=query.sql,
                    plan=query.plan,
                    reads_tables=query.reads_tables,
                    reads_queries=query.reads_queries,
                    reads_functions=query.reads_functions,
                    start_us=query.start_us,
                    owner=query.owner,
                    description=query.description,
                    strategy=query.strategy,
                )
            self._write_many([("create_query", query_to_json(q)) for q in made.values()])
            return list(made.values())

    def _check_reads(self, query: NewQuery, made: Mapping[str, object], planned: CatalogState) -> None:
        """What it reads may have been dropped since it was planned, and something else have its name."""
        reads: tuple[tuple[str, tuple[str, ...], Mapping[str, object], Mapping[str, object]], ...] = (
            ("table", query.reads_tables, self.state.tables, planned.tables),
            ("query", query.reads_queries, self.state.queries, planned.queries),
            ("function", query.reads_functions, self.state.functions, planned.functions),
        )
        for kind, names, known, before in reads:
            for name in names:
                if kind == "query" and name in made:
                    continue
                if name not in known:
                    raise self._missing(kind, name, known)
                if _what(known[name]) != _what(before.get(name)):
                    hint = f"another {kind} of that name came while the query was planned; try again"
                    raise error(f"{kind}_not_found", **{kind: name}, hint=hint)

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
                raise self._missing("query", name, self.state.queries)
            changed = replace(
                known,
                sql=known.sql if sql is None else sql,
                plan=known.plan if plan is None else plan,
                paused=known.paused if paused is None else paused,
            )
            if changed != known:
                self._write("change_query", query_to_json(changed))
            return changed

    def retarget_query(self, planned: QueryDefinition, sql: str, plan: dict[str, object]) -> bool:
        """A new window for a query; False where it is another one by now, or has another window."""
        with self._lock:
            known = self.state.queries.get(planned.name)
            if _what(known) != _what(planned):
                return False
            self.change_query(planned.name, sql=sql, plan=plan)
            return True

    def describe_query(self, name: str, **facts: str | None) -> QueryDefinition:
        """Another owner, description or strategy; what it answers stays the same."""
        with self._lock:
            known = self.state.queries.get(name)
            if known is None:
                raise self._missing("query", name, self.state.queries)
            changed = replace(
                known,
                owner=facts.get("owner", known.owner),
                description=facts.get("description", known.description),
                strategy=facts.get("strategy", known.strategy),
            )
            if changed != known:
                body = {n: getattr(changed, n) for n in ("name", "owner", "description", "strategy")}
                self._write("describe_query", body)
            return changed

    def drop(self, kind: str, name: str, cascade: bool = False, if_exists: bool = False) -> list[str]:
        """Drop a table, stream_type, function or query; with CASCADE also what uses it. What was dropped."""
        return self.drop_many(kind, [name], cascade, if_exists)

    def drop_many(self, kind: str, names: Sequence[str], cascade: bool = False, if_exists: bool = False) -> list[str]:
        """All of them with one sync, or none; users that are dropped themselves hold nothing up."""
        with self._lock:
            known: Mapping[str, Mapping[str, object]] = {
                "table": self.state.tables,
                "stream_type": self.state.stream_types,
                "function": self.state.functions,
                "query": self.state.queries,
            }
            for name in names:
                if name not in known[kind] and not if_exists:
                    raise self._missing(kind, name, known[kind])
            wanted = {(kind, name): None for name in names if name in known[kind]}
            gone = with_all_users(wanted, self._users(kind), cascade)
            if gone:
                self._write("drop", {"names": [list(n) for n in gone]})
            return [f'{k.replace("_", " ")} "{n}"' for k, n in gone]

    def _users(self, kind: str) -> Mapping[Name, list[Name]]:
        queries = self.state.queries.values()
        if kind == "query":
            # Only queries use queries, and few of ten thousand do.
            return users_by_name((), (q for q in queries if q.reads_queries))
        return users_by_name(self.state.tables.values(), queries)

    # -- static rows

    def insert_rows(self, table: str, rows: Sequence[Sequence[Any]]) -> int:
        """Rows of static values in order of the columns; for a sensor table the address stands last."""
        with self._lock:
            found = self._table(table)
            if found.stream is not None and not found.key:
                raise error(
                    "invalid_definition",
                    detail=f'table "{table}" is one sensor, which is there already',
                    hint=f"UPDATE {table} SET {found.stream.name} = '...' gives it an address",
                )
            static = self.state.rows(found.id)
            body = plain_rows(found, rows)
            check_keys(found, body)
            check_required(found, body)
            for row in body:
                if static.has_key(row):
                    raise duplicate(found, row)
            if body:
                self._write("insert_rows", {"table": found.id, "rows": body})
            return len(body)

    def update_rows(self, table: str, changes: Mapping[int, Sequence[Any]]) -> int:
        """New static values (and address) for sids. How many: a row that was deleted meanwhile does not count."""
        with self._lock:
            found = self._table(table)
            static = self.state.rows(found.id)
            live = {int(sid): values for sid, values in changes.items() if static.is_live(int(sid))}
            body = plain_rows(found, list(live.values()))
            check_keys(found, body)
            check_required(found, body)
            for row in body:
                taken = static.vid_of(static.key_of(row)) if found.key else None
                if taken is not None and int(static.sids[taken]) not in live:
                    raise duplicate(found, row)
            if body:
                changed = [[sid, row] for sid, row in zip(live, body, strict=True)]
                self._write("update_rows", {"table": found.id, "rows": changed})
            return len(body)

    def delete_rows(self, table: str, sids: Iterable[int]) -> int:
        """How many rows went: one that was deleted meanwhile does not count."""
        with self._lock:
            found = self._table(table)
            if found.stream is not None and not found.key:
                raise error("invalid_definition", detail=f'table "{table}" is one sensor', hint="drop the table")
            static = self.state.rows(found.id)
            gone = [sid for sid in dict.fromkeys(int(s) for s in sids) if static.is_live(sid)]
            if gone:
                self._write("delete_rows", {"table": found.id, "sids": gone})
            return len(gone)

    def observe(self, table_id: int, opened: Sequence[int], closed: Sequence[int], ended: Sequence[int] = ()) -> None:
        """Sensors were opened or closed: from then on, or up to then, an answer is complete.

        `ended` names those of the closed ones that said END.
        """
        with self._lock:
            if table_id in self.state.tables_by_id and (opened or closed or ended):
                body: dict[str, Any] = {"table": table_id}
                for what, sids in (("opened", opened), ("closed", closed), ("ended", ended)):
                    body[what] = [int(s) for s in sids]
                self._write("observe", body)

    def retain(self, table_id: int, position: int) -> None:
        """Rows below the position are gone from now on."""
        with self._lock:
            if table_id in self.state.tables_by_id and position > self.state.retention(table_id):
                self._write("retain", {"table": table_id, "position": position})

    # -- inside

    def _write(self, kind: str, body: dict[str, Any]) -> None:
        self._write_many([(kind, body)])

    def _write_many(self, entries: Sequence[tuple[str, dict[str, Any]]]) -> None:
        if not entries:
            return
        with self._still() as heads:
            made = self._writer.append_many(entries, heads, self._clock.now_us())
            self.state.apply_many(made)
        self._projection.take(made, self.state)
        for entry in made:
            for listener in list(self.listeners):
                try:
                    listener(entry)
                except Exception:
                    # The definition stands; whoever could not follow must not make it look as if it did not.
                    _log.exception("after journal entry %s", entry.pos)

    def _table(self, name: str) -> Table:
        found = self.state.tables.get(name)
        if found is None:
            raise self._missing("table", name, self.state.tables)
        return found

    def _missing(self, kind: str, name: str, known: Iterable[str]) -> PenstockError:
        return error(f"{kind}_not_found", **{kind: name}, hint=suggest(name, known))

    def _exists(self, kind: str, name: str, known: Mapping[str, object], tolerated: bool) -> bool:
        if name not in known:
            return False
        if tolerated:
            return True
        raise error("already_exists", kind=kind, name=name)


def _what(found: object) -> object:
    """What a plan depends on of something that goes by a name."""
    if isinstance(found, Table):
        return found.id
    return (found.id, found.sql) if isinstance(found, QueryDefinition) else found
