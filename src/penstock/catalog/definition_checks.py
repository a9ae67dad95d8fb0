"""Checks before a definition is journalled: a table's shape, static rows that fit it, what a query reads, what a name is used by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from penstock.catalog.definition_json import journal_form
from penstock.catalog.model import QueryDefinition, Sink, Table
from penstock.catalog.rollup_records import RollupDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError, error, suggest
from penstock.types import TEXT, Field

Row = list[Any]


def check_shape(table: Table) -> None:
    """That a table's columns can be told apart, and its rows by their key."""
    names = [c.name for c in table.columns] + ([table.stream.name] if table.stream is not None else [])
    if len(set(names)) < len(names):
        raise error("invalid_definition", detail="a column is named twice")
    types = {c.name: c.type for c in table.columns}
    for name in table.key:
        if name not in types:
            raise error("invalid_definition", detail=f'the key names "{name}", which is no static column')
        if types[name].kind in ("ARRAY", "STRUCT"):
            raise error("invalid_definition", detail=f"{types[name]} cannot be a key")
    if table.stream is not None and table.columns and not table.key:
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


def checked_rows(table: Table, rows: Sequence[Sequence[Any]]) -> list[Row]:
    """Rows in the journal's form: one value per column, then the address, which is NULL in an ordinary table.

    No NULL in a key or in a column that was declared NOT NULL, no key twice among these rows.
    """
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
    _check_keys(table, plain)
    for place, column in enumerate(table.columns):
        if column.required and any(row[place] is None for row in plain):
            raise error("not_null_violation", column=column.name, table=table.name)
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


def _check_keys(table: Table, rows: Sequence[Row]) -> None:
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


_SHOWN = 10

Name = tuple[str, str]  # kind (table, stream_type, function, query, rollup, sink) and name


def users_by_name(
    tables: Iterable[Table],
    queries: Iterable[QueryDefinition],
    rollups: Iterable[RollupDefinition] = (),
    sinks: Iterable[Sink] = (),
) -> Mapping[Name, list[Name]]:
    """For everything that is used, its direct users in the order they came."""
    users: defaultdict[Name, list[Name]] = defaultdict(list)
    for table in tables:
        if table.stream is not None and table.stream.stream_type is not None:
            users["stream_type", table.stream.stream_type].append(("table", table.name))
    for query in queries:
        me = ("query", query.name)
        reads = {"table": query.reads_tables, "query": query.reads_queries, "function": query.reads_functions}
        for kind, names in reads.items():
            for name in dict.fromkeys(names):
                users[kind, name].append(me)
    for rollup in rollups:
        users["table", rollup.table].append(("rollup", rollup.name))
    for sink in sinks:
        users["query", sink.query].append(("sink", sink.name))
    return users


def with_all_users(names: Collection[Name], users: Mapping[Name, list[Name]], cascade: bool) -> list[Name]:
    """What goes when these names go, users before what they use; dependents_exist where others use them."""
    gone: dict[Name, None] = {}
    for name in names:
        others = [u for u in users.get(name, ()) if u not in names]
        if others and not cascade:
            shown = [f'{k} "{n}"' for k, n in others[:_SHOWN]]
            if len(others) > len(shown):
                shown.append(f"{len(others) - len(shown)} more")
            raise error(
                "dependents_exist",
                kind=name[0].replace("_", " "),
                name=name[1],
                dependents=", ".join(shown),
                hint="drop them first, or add CASCADE",
            )
        if name not in gone:
            gone |= dict.fromkeys(n for n in with_users(name, users) if n not in gone)
    return list(gone)


def with_users(name: Name, users: Mapping[Name, list[Name]]) -> list[Name]:
    """A name and all that would not live without it, users before what they use."""
    ordered: list[Name] = []
    seen = {name}
    # Not recursive: queries may stand on queries in chains longer than Python's stack.
    path = [(name, iter(users.get(name, ())))]
    while path:
        at, rest = path[-1]
        user = next(rest, None)
        if user is None:
            ordered.append(at)
            path.pop()
        elif user not in seen:
            seen.add(user)
            path.append((user, iter(users.get(user, ()))))
    return ordered


def missing(kind: str, name: str, known: Iterable[str]) -> PenstockError:
    return error(f"{kind}_not_found", **{kind: name}, hint=suggest(name, known))


def check_reads(query: QueryDefinition, made: Mapping[str, object], now: CatalogState, planned: CatalogState) -> None:
    """What it reads may have been dropped since it was planned, and something else have its name."""
    reads: tuple[tuple[str, tuple[str, ...], Mapping[str, object], Mapping[str, object]], ...] = (
        ("table", query.reads_tables, now.tables, planned.tables),
        ("query", query.reads_queries, now.queries, planned.queries),
        ("function", query.reads_functions, now.functions, planned.functions),
    )
    for kind, names, known, before in reads:
        for name in names:
            if kind == "query" and name in made:
                continue
            if name not in known:
                raise missing(kind, name, known)
            if identity_of(known[name]) != identity_of(before.get(name)):
                hint = f"another {kind} of that name came while the query was planned; try again"
                raise error(f"{kind}_not_found", **{kind: name}, hint=hint)


def identity_of(found: object) -> object:
    """What a plan depends on of something that goes by a name."""
    if isinstance(found, Table):
        return found.id
    return (found.id, found.sql) if isinstance(found, QueryDefinition) else found
