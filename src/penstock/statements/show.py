"""SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from penstock.catalog.secrets import shown_options
from penstock.catalog.state import CatalogState
from penstock.catalog.system_columns import SHOWN, SYSTEM_TABLES
from penstock.errors import error, expect, suggest
from penstock.settings import SETTINGS
from penstock.sql import statements as st
from penstock.sql.plan import AggregatePlan, plan_from_json
from penstock.statements.accounts import show_tokens, show_users
from penstock.statements.replies import matching, rows_of
from penstock.statements.session import Session
from penstock.views.results import Result


def show(session: Session, statement: st.Show) -> Result:
    what = statement.what.lower()
    state = session.catalog.state
    if what == "tables":
        rows = [
            {"name": t.name, "key": ", ".join(t.key), "stream": t.stream.name if t.stream is not None else None}
            for t in sorted(state.tables.values(), key=lambda t: t.name)
        ]
        return rows_of(rows, ("name", "key", "stream"))
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
    if what == "stream types":
        rows = [
            {"name": s.name, "connector": s.connector, "fields": ", ".join(f"{f.name} {f.type}" for f in s.fields)}
            for s in state.stream_types.values()
        ]
        return rows_of(rows, ("name", "connector", "fields"))
    if what == "functions":
        rows = [
            {
                "name": f.name,
                "parameters": ", ".join(f"{p.name} {p.type}" for p in f.parameters),
                "returns": str(f.returns),
            }
            for f in state.functions.values()
        ]
        return rows_of(rows, ("name", "parameters", "returns"))
    if what == "users":
        return show_users(session.users)
    if what == "tokens":
        return show_tokens(session.users)
    if what == "settings":
        rows = [
            {
                "name": s.name,
                "value": shown_options({s.name: str(getattr(session.settings, s.name))})[s.name],
                "meaning": s.sentence,
            }
            for s in SETTINGS
        ]
        return rows_of(rows, ("name", "value", "meaning"))
    raise error("not_supported", feature=f"SHOW {statement.what}")


def describe(session: Session, statement: st.Describe) -> Result:
    state, name = session.catalog.state, statement.name
    columns = _columns_of(state, name) if statement.kind is None else None
    if columns is None and statement.kind != "function" and name in state.stream_types:
        columns = [{"column": f.name, "type": str(f.type), "kind": "field"} for f in state.stream_types[name].fields]
    if columns is None and statement.kind != "stream_type" and name in state.functions:
        function = state.functions[name]
        columns = [{"column": p.name, "type": str(p.type), "kind": "parameter"} for p in function.parameters]
        columns.append({"column": None, "type": str(function.returns), "kind": "result"})
    if columns is not None:
        return rows_of(columns, ("column", "type", "kind"))
    if statement.kind is not None:
        known: Collection[str] = state.functions if statement.kind == "function" else state.stream_types
        raise error(f"{statement.kind}_not_found", **{statement.kind: name}, hint=suggest(name, known))
    raise error("table_not_found", table=name, hint=suggest(name, [*state.tables, *state.queries]))


def _columns_of(state: CatalogState, name: str) -> list[dict[str, str | None]] | None:
    """The columns of a table, a standing query, a rollup or a system table; None where there is none of that name."""
    table, query = state.tables.get(name), state.queries.get(name)
    if table is not None:
        return [
            {"column": c.name, "type": str(c.type), "kind": "key" if c.name in table.key else c.origin}
            for c in table.flat_columns()
        ]
    if query is not None:
        columns = plan_from_json(query.plan).columns
        return [{"column": n, "type": str(t), "kind": "output"} for n, t in columns]
    if name in state.rollups:
        keeps = expect(AggregatePlan, plan_from_json(state.rollups[name].plan))
        return [{"column": o.name, "type": str(o.type), "kind": "rolled up"} for o in keeps.outputs]
    if name in SYSTEM_TABLES:
        return [{"column": f.name, "type": str(f.type), "kind": "system"} for f in SYSTEM_TABLES[name]]
    return None
