"""What has to hold before rows or tables are journalled: an entry that is written must apply, for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.catalog.model import StreamColumn, Table
from penstock.catalog.values import journal_form
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
