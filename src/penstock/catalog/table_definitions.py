"""Tables, their columns and static rows, stream types and functions: checked, then journalled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.catalog.definition_json import to_json
from penstock.catalog.model import Function, StreamColumn, StreamType, Table, TableOptions
from penstock.catalog.values import journal_form
from penstock.catalog.writer import CatalogWriter
from penstock.errors import PenstockError, error
from penstock.types import TEXT, Field

Row = list[Any]


def check_shape(columns: tuple[Field, ...], key: tuple[str, ...], stream: StreamColumn | None) -> None:
    """That a table's columns can be told apart, and its rows by their key."""
    names = [c.name for c in columns] + ([stream.name] if stream is not None else [])
    if len(set(names)) < len(names):
        raise error("invalid_definition", detail="a column is named twice")
    types = {c.name: c.type for c in columns}
    for name in key:
        if name not in types:
            raise error("invalid_definition", detail=f'the key names "{name}", which is no static column')
        if types[name].kind in ("ARRAY", "STRUCT"):
            raise error("invalid_definition", detail=f"{types[name]} cannot be a key")
    if stream is not None and columns and not key:
        raise error("invalid_definition", detail="a sensor table with static columns needs a PRIMARY KEY")


def check_added(before: Table, after: Table, column: Field) -> None:
    """That every column is still called as before: standing queries know them by those names.

    A static column with the name of a stream's field would take that name from it.
    """
    known = {(c.origin, c.source): c.name for c in before.flat_columns()}
    names = [c.name for c in after.flat_columns()]
    renamed = any(known.get((c.origin, c.source), c.name) != c.name for c in after.flat_columns())
    if renamed or len(set(names)) < len(names):
        raise error(
            "already_exists",
            kind="field",
            name=column.name,
            hint=f'"{column.name}" means a field of the readings of {before.name} already; choose another name',
        )


def plain_rows(table: Table, rows: Sequence[Sequence[Any]]) -> list[Row]:
    """Rows in the journal's form: one value per column, then the address, which is NULL in an ordinary table."""
    fields = [*table.columns] if table.stream is None else [*table.columns, Field(table.stream.name, TEXT)]
    forms = [journal_form(f.type) for f in fields]
    padding: Row = [None] if table.stream is None else []
    plain: list[Row] = []
    for row in rows:
        if len(row) != len(fields):
            raise error("type_mismatch", detail=f"a row of {table.name} has {len(fields)} values, not {len(row)}")
        try:
            plain.append([form(v) for form, v in zip(forms, row, strict=True)] + padding)
        except ValueError:
            raise _misfit(table, fields, row) from None
    return plain


def _misfit(table: Table, fields: Sequence[Field], row: Sequence[Any]) -> PenstockError:
    for field, value in zip(fields, row, strict=True):
        try:
            journal_form(field.type)(value)
        except ValueError:
            return error(
                "type_mismatch", detail=f'column "{field.name}" of {table.name} is {field.type}, not {value!r}'
            )
    raise AssertionError("a row that does not fit has a value that does not")


def check_required(table: Table, rows: Sequence[Row]) -> None:
    """No NULL in a column that was declared NOT NULL."""
    required = [(place, column.name) for place, column in enumerate(table.columns) if column.required]
    for place, name in required:
        if any(row[place] is None for row in rows):
            raise error("not_null_violation", column=name, table=table.name)


def check_keys(table: Table, rows: Sequence[Row]) -> None:
    """No NULL in a key, no key twice among these rows."""
    if not table.key:
        return
    seen: set[tuple[Any, ...]] = set()
    places = _key_places(table)
    for row in rows:
        key = tuple([row[p] for p in places])
        if None in key:
            raise error("not_null_violation", column=table.key[key.index(None)], table=table.name)
        if key in seen:
            raise duplicate(table, row)
        seen.add(key)


def duplicate(table: Table, row: Row) -> PenstockError:
    shown = ", ".join(f"{n} = {row[p]!r}" for n, p in zip(table.key, _key_places(table), strict=True))
    return error("unique_violation", table=table.name, key=shown)


def _key_places(table: Table) -> list[int]:
    names = [c.name for c in table.columns]
    return [names.index(k) for k in table.key]


class TableDefinitions(CatalogWriter):
    def create_stream_type(self, found: StreamType, if_not_exists: bool = False) -> None:
        with self._lock:
            if self._exists("stream type", found.name, self.state.stream_types, if_not_exists):
                return
            self._write("create_stream_type", to_json(found))

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
            entries = [("create_table", to_json(table))]
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
            self._write("alter_table", to_json(changed))
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
            self._write("create_function", to_json(function))
            return True

    def create_function(self, function: Function) -> None:
        with self._lock:
            self._exists("function", function.name, self.state.functions, False)
            self._write("create_function", to_json(function))

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
