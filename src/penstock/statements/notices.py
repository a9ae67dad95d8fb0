"""Notices about a query that is created or changed without an error: a window beyond retention, a strategy without effect."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.expr.windows import FOREVER, TimeWindow, Window
from penstock.operators.aggregate.rollups.rollup_choice import find_match
from penstock.operators.base.view import unheeded
from penstock.sql.plan import Plan, looks_of
from penstock.types import format_duration
from penstock.views.standing_queries import StandingQueries


def notices_of(
    standing: StandingQueries, name: str, plan: Plan, strategy: str | None, state: CatalogState
) -> tuple[str, ...]:
    """All notices about a query."""
    found = (beyond_retention(standing, name, plan, state), strategy_unheeded(name, plan, strategy))
    return tuple(notice for notice in found if notice is not None)


def strategy_unheeded(name: str, plan: Plan, strategy: str | None) -> str | None:
    """The notice that a requested strategy does not apply to such a query; None where it does."""
    reason = unheeded(plan, strategy)
    return None if reason is None else f'strategy "{strategy}" changes nothing for query "{name}": {reason}'


def beyond_retention(standing: StandingQueries, name: str, plan: Plan, state: CatalogState) -> str | None:
    """The notice for a query with a window that begins before its table's retention; None for other queries."""
    asked = plan.aggregation
    if asked is not None and (asked.latch is not None or find_match(asked, state) is not None):
        return None  # its state outlives the readings, or a rollup has them
    for table, window in _looks(plan, state):
        keep_us = table.options.retention_us
        back_us = _reaches_back(standing, table, window)
        if keep_us is not None and back_us is not None and back_us > keep_us:
            kept = f'table "{table.name}" keeps readings for {format_duration(keep_us)}'
            return f'query "{name}" asks for more than there will be: {kept}; its answers say complete_from'
    return None


def _looks(plan: Plan, state: CatalogState) -> Iterator[tuple[Table, Window]]:
    yield from ((state.tables_by_id[use.table_id], use.window) for use in looks_of(plan))
    for relation in plan.relations:
        if relation.kind == "stream" and relation.window is not None:
            yield state.tables[relation.table], relation.window


def _reaches_back(standing: StandingQueries, table: Table, window: Window) -> int | None:
    """How long before the table's NOW a window begins; None where that is not known or not bounded."""
    if not isinstance(window, TimeWindow) or abs(window.begin.offset_us) >= FOREVER:
        return None
    if window.begin.anchor != "constant":
        return -window.begin.offset_us
    with standing.locked() as store:
        now_us = store.now_of(table, None) if table.id in store.state.tables_by_id else None
    return now_us - window.begin.offset_us if now_us is not None else None
