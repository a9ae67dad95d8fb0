"""Queries: every standing query with its state, what it finds and what it costs."""

from __future__ import annotations

from typing import Any

from nicegui import ui
from starlette.requests import Request

from penstock.console.formats import cycles, number, size
from penstock.console.page import console, frame, go_to, path_to, refresh_every
from penstock.console.widgets.parts import card, column, counted, empty, listing, said, set_rows
from penstock.database.database import Database
from penstock.statements.descriptions import describe_query

# Describing all of ten thousand queries would hold up the cycle; beyond this the costliest are shown, or those found.
QUERIES_MAX = 200

_COLUMNS = [
    column("name"),
    column("state"),
    column("matched", "rows found", right=True, by=True),
    column("window", wide=True, sortable=False),
    column("runs", "runs as", wide=True),
    column("cost", "ms per cycle", right=True, wide=True, by=True),
    column("memory", right=True, wide=True, by=True),
    column("lag", right=True, by=True),
    column("owner", wide=True),
]


async def show(request: Request) -> None:
    """The page."""
    with frame("Queries", "queries", request) as head:
        with head:
            new = ui.button("New query", icon="add", on_click=lambda: go_to("ask"))
            new.props("unelevated").classes("main-action")
        with card("Standing queries") as bar:
            with bar:
                told = ui.label("").classes("muted small")
                search = ui.input(placeholder="Find").props('dense outlined clearable aria-label="Find"')
                search.classes("fit-content")
            found = listing(_COLUMNS, "name", opens=lambda name: go_to("queries", name))
            nothing = empty("No standing query yet. Ask something and keep it.")

    async def refresh() -> None:
        rows, total = await console().look(_rows, console().database, str(search.value or "").lower())
        set_rows(found, rows)
        found.set_visibility(bool(total))
        nothing.set_visibility(not total)
        told.set_text(f"the {len(rows)} costliest of {total:,}" if len(rows) < total and not search.value else "")

    await refresh()
    refresh_every(1.0, refresh)


def _rows(database: Database, wanted: str) -> tuple[list[dict[str, Any]], int]:
    known = database.catalog.state.queries
    if wanted:
        names = [n for n in sorted(known) if wanted in n.lower()][:QUERIES_MAX]
    elif len(known) <= QUERIES_MAX:
        names = sorted(known)
    else:
        by_id = database.catalog.state.queries_by_id
        names = [by_id[q].name for q in database.costs.costliest(QUERIES_MAX) if q in by_id]
    definitions = [known[n] for n in names if n in known]
    return [row_of(describe_query(database, d), lag_of(database, d.id)) for d in definitions], len(known)


def row_of(facts: dict[str, Any], lag: int) -> dict[str, Any]:
    evaluations = facts["evaluations"]
    cost = facts["ms"] / evaluations if evaluations else None
    return {
        "name": facts["name"],
        "state": facts["state"],
        "href": path_to("queries", facts["name"]),
        **counted("matched", facts["matched"] if facts["matched"] is not None else facts["rows"]),
        "window": facts["window"],
        "runs": facts["runs"],
        **said("cost", number(cost), cost),
        **said("memory", size(facts["memory"]), facts["memory"]),
        **said("lag", f"{facts['progress']:.0%} read" if facts["state"] == "FILLING" else cycles(lag), lag),
        "owner": facts["owner"],
    }


def lag_of(database: Database, query_id: int) -> int:
    """How many cycles its answer is behind the newest one: none in the shared pass, some where Spark takes turns."""
    with database.standing.locked() as store:
        found = store.evaluations.stands_for(query_id)
        return max(0, store.cycle - found[0]) if found is not None else 0
