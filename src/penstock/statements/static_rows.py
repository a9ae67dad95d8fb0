"""INSERT, UPDATE and DELETE of static rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.expr.evaluate import evaluate, evaluate_mask
from penstock.sensors.registry import check_addresses
from penstock.sql import statements as st
from penstock.sql.row_changes import bind_delete, bind_insert, bind_update
from penstock.statements.replies import done
from penstock.statements.session import Session
from penstock.views.results import Result


def insert(session: Session, statement: st.Insert) -> Result:
    rows = bind_insert(statement, session.catalog.state)
    table = session.catalog_table(statement.table)
    if table.stream is not None:
        check_addresses(table, (row[-1] for row in rows), session.address_rules)
    count = session.catalog.insert_rows(statement.table, rows)
    return done(f"INSERT 0 {count}")


def update(session: Session, statement: st.Update) -> Result:
    assignments, where = bind_update(statement, session.catalog.state)
    table = session.catalog_table(statement.table)
    rows = session.catalog.state.rows(table.id)
    current = rows.current()
    chosen = current.filter(pa.array(evaluate_mask(where, current, current.num_rows)))
    assigned = {name: evaluate(e, chosen, chosen.num_rows) for name, e in assignments.items()}
    names = [c.name for c in table.columns]
    if table.stream is not None:
        names.append("_address")
        if table.stream.name in assigned:
            assigned["_address"] = assigned.pop(table.stream.name)
            check_addresses(table, plain_values(assigned["_address"]), session.address_rules)
    columns = [plain_values(assigned.get(n, chosen.column(n))) for n in names]
    sids = chosen.column("_sid").to_pylist()
    changes = {sid: [c[i] for c in columns] for i, sid in enumerate(sids)}
    return done(f"UPDATE {session.catalog.update_rows(statement.table, changes)}")


def delete(session: Session, statement: st.Delete) -> Result:
    where = bind_delete(statement, session.catalog.state)
    table = session.catalog_table(statement.table)
    current = session.catalog.state.rows(table.id).current()
    chosen = current.filter(pa.array(evaluate_mask(where, current, current.num_rows)))
    return done(f"DELETE {session.catalog.delete_rows(statement.table, chosen.column('_sid').to_pylist())}")


def plain_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values as the journal stores them: times as microseconds, decimals as text, binaries as hex."""
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_decimal(column.type):
        return [None if v is None else str(v) for v in column.to_pylist()]
    if pa.types.is_binary(column.type):
        return [None if v is None else v.hex() for v in column.to_pylist()]
    return list(column.to_pylist())
