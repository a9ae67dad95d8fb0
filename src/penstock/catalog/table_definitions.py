"""Tables, their columns and static rows, stream types and functions: checked, then journalled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.catalog.checks import check_added, check_keys, check_required, check_shape, duplicate, plain_rows
from penstock.catalog.definition_json import function_to_json, stream_type_to_json, table_to_json
from penstock.catalog.model import Function, StreamColumn, StreamType, Table, TableOptions
from penstock.catalog.writer import CatalogWriter
from penstock.errors import error
from penstock.types import Field


class TableDefinitions(CatalogWriter):
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
            self._exists("rollup", name, self.state.rollups, False)
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

    def replace_function(self, function: Function) -> bool:
        """Another body for a function, if all its callers are out of the cycles; False where some are not.

        A quarantined query has no answers that could come to mean something else. Its plan knows the types.
        """
        with self._lock:
            known = self.state.functions.get(function.name)
            callers = [q for q in self.state.queries.values() if function.name in q.reads_functions]
            if known is None or not callers or any(q.quarantined is None for q in callers):
                return False
            if (known.parameters, known.returns) != (function.parameters, function.returns):
                return False
            self._write("create_function", function_to_json(function))
            return True

    def create_function(self, function: Function) -> None:
        with self._lock:
            self._exists("function", function.name, self.state.functions, False)
            self._write("create_function", function_to_json(function))

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
