"""Joins with at most one result per reading: their results have the order of the readings, so there is a first and a last."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.catalog.model import Table
from penstock.expr.expression import Column
from penstock.sql.plan import JoinPlan, JoinTable


def gives_one_each(join: JoinPlan, tables: Mapping[int, Table]) -> bool:
    """Of several streams one reading meets many: combinations of the same time would have no order."""
    return len(join.inputs) == 1 and all(_meets_one_row(each, tables[each.table_id]) for each in join.tables)


def _meets_one_row(joined: JoinTable, table: Table) -> bool:
    """Whether the table says only that a row is there, or is looked up by its whole primary key."""
    looked_up = {own.name for _, own in joined.keys if isinstance(own, Column)}
    return not joined.is_shown or (bool(table.key) and looked_up.issuperset(table.key))
