"""SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from penstock.catalog.definition_checks import missing
from penstock.catalog.secrets import shown_options
from penstock.catalog.state import CatalogState
from penstock.catalog.system_columns import SHOWN, SYSTEM_TABLES
from penstock.clock import format_timestamp
from penstock.errors import error, expect, suggest
from penstock.settings import SETTINGS
from penstock.sql import statements as st
from penstock.sql.plan import AggregatePlan, plan_from_json
from penstock.statements.session import Session, matching, rows_of
from penstock.views.results import Result

_Row = tuple[str | None, ...]


def show(session: Session, statement: st.Show) -> Result:
    what = statement.what.lower()
    if what in SHOWN:
        found = session.system_table(f"penstock.{what}").select(SHOWN[what])
        if statement.table is not None:
            if "table_name" not in found.column_names:
                raise error("not_supported", feature=f"SHOW {statement.what.upper()} of one table")
            session.catalog_table(statement.table)
            found = found.filter(pa.compute.equal(found.column("table_name"), statement.table))
        if statement.like is not None:
            first = found.column(0)
            wanted = pa.array(matching(statement.like, {str(n) for n in first.to_pylist()}), pa.string())
            found = found.filter(pa.compute.is_in(first.cast(pa.string()), wanted))
        return Result(found)
    if what not in _ROWS:
        raise error("not_supported", feature=f"SHOW {statement.what}")
    columns, rows = _ROWS[what]
    return rows_of(columns, rows(session))


def _tables(session: Session) -> Iterator[_Row]:
    for table in sorted(session.catalog.state.tables.values(), key=lambda t: t.name):
        yield table.name, ", ".join(table.key), table.stream.name if table.stream is not None else None


def _stream_types(session: Session) -> Iterator[_Row]:
    for found in session.catalog.state.stream_types.values():
        yield found.name, found.connector, ", ".join(f"{f.name} {f.type}" for f in found.fields)


def _functions(session: Session) -> Iterator[_Row]:
    for found in session.catalog.state.functions.values():
        yield found.name, ", ".join(f"{p.name} {p.type}" for p in found.parameters), str(found.returns)


def _aggregates(session: Session) -> Iterator[_Row]:
    for found in session.catalog.state.functions.values():
        if found.state is not None:
            parameters = ", ".join(f"{p.name} {p.type}" for p in found.parameters)
            yield found.name, parameters, str(found.returns), str(found.state)


def _settings(session: Session) -> Iterator[_Row]:
    for setting in SETTINGS:
        value = shown_options({setting.name: str(getattr(session.settings, setting.name))})[setting.name]
        yield setting.name, value, setting.sentence


def _users(session: Session) -> Iterator[_Row]:
    found = session.users.accounts()
    for user in sorted(found.users.values(), key=lambda u: u.name):
        tokens = ", ".join(sorted(t.name for t in found.tokens.values() if t.owner == user.name)) or None
        yield user.name, user.role, "set" if user.password else None, tokens, format_timestamp(user.created_us)


def _tokens(session: Session) -> Iterator[_Row]:
    for token in sorted(session.users.accounts().tokens.values(), key=lambda t: t.name):
        expires = format_timestamp(token.expires_us) if token.expires_us is not None else None
        yield token.name, token.role, token.owner, format_timestamp(token.created_us), expires


# What is shown without being a system table: the columns, and the rows.
_ROWS: dict[str, tuple[tuple[str, ...], Callable[[Session], Iterable[_Row]]]] = {
    "tables": (("name", "key", "stream"), _tables),
    "stream types": (("name", "connector", "fields"), _stream_types),
    "functions": (("name", "parameters", "returns"), _functions),
    "aggregates": (("name", "parameters", "returns", "state"), _aggregates),
    "settings": (("name", "value", "meaning"), _settings),
    "users": (("name", "role", "password", "tokens", "created"), _users),
    "tokens": (("name", "role", "owner", "created", "expires"), _tokens),
}


def describe(session: Session, statement: st.Describe) -> Result:
    state, name = session.catalog.state, statement.name
    columns = _columns_of(state, name) if statement.kind is None else None
    if columns is None and statement.kind != "function" and name in state.stream_types:
        columns = [(f.name, str(f.type), "field") for f in state.stream_types[name].fields]
    if columns is None and statement.kind != "stream_type" and name in state.functions:
        function = state.functions[name]
        columns = [(p.name, str(p.type), "parameter") for p in function.parameters]
        columns.append((None, str(function.returns), "result"))
        if function.state is not None:
            columns.append((None, str(function.state), "state"))
    if columns is not None:
        return rows_of(("column", "type", "kind"), columns)
    if statement.kind is not None:
        raise missing(statement.kind, name, session.catalog.state.named(statement.kind))
    raise error("table_not_found", table=name, hint=suggest(name, [*state.tables, *state.queries]))


def _columns_of(state: CatalogState, name: str) -> list[_Row] | None:
    """The columns of a table, a standing query, a rollup or a system table; None where there is none of that name."""
    table, query = state.tables.get(name), state.queries.get(name)
    if table is not None:
        return [(c.name, str(c.type), "key" if c.name in table.key else c.origin) for c in table.flat_columns()]
    if query is not None:
        return [(n, str(t), "output") for n, t in plan_from_json(query.plan).columns]
    if name in state.rollups:
        keeps = expect(AggregatePlan, plan_from_json(state.rollups[name].plan))
        return [(o.name, str(o.type), "rolled up") for o in keeps.outputs]
    if name in SYSTEM_TABLES:
        return [(f.name, str(f.type), "system") for f in SYSTEM_TABLES[name]]
    return None
