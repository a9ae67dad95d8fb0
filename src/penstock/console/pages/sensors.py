"""Sensors: every sensor table with what it takes in, and a form for a new one."""

from __future__ import annotations

from typing import Any

from nicegui import events, ui
from starlette.requests import Request

from penstock.console.formats import age, number
from penstock.console.layout import frame, go_to, path_to, refresh_every
from penstock.console.page_context import console
from penstock.console.status_cache import ServerStatus
from penstock.console.widgets.data_table import column, counted, listing, said, show_rows
from penstock.console.widgets.new_table_dialog import NewTableDialog
from penstock.console.widgets.parts import card, empty

_COLUMNS = [
    column("name", "table"),
    column("sensors", right=True, by=True),
    column("state", "", sortable=False),
    column("rate", "per second", right=True, by=True),
    column("stored", right=True, wide=True, by=True),
    column("refused", right=True, by=True),
    column("late", right=True, wide=True, by=True),
    column("last", "last reading", right=True, wide=True, by=True),
    column("how", "read by", wide=True),
    column("kept", "kept for", wide=True),
]


async def show(request: Request) -> None:
    """The page."""
    moment = await console().status_cache.current()
    with frame("Sensors", "sensors", request) as head:
        dialog = NewTableDialog()
        with head:
            ui.button("Add a table", icon="add", on_click=dialog.open).props("unelevated").classes("main-action")
        with card("Tables"):
            tables = listing(_COLUMNS, "name", clickable=True)
            tables.on("rowClick", _open, [[], ["name"], None])
            nothing = empty("No sensor table yet. Add one, or start the demo on the overview.")

    def fill(moment: ServerStatus) -> None:
        rows = [_row(table, moment) for table in console().database.tables() if table["stream"]]
        show_rows(tables, rows, nothing)

    fill(moment)

    async def refresh() -> None:
        fill(await console().status_cache.current())

    refresh_every(1.0, refresh)


def _open(event: events.GenericEventArguments) -> None:
    go_to("sensors", event.args[1]["name"])


def _row(table: dict[str, Any], moment: ServerStatus) -> dict[str, Any]:
    counts = moment.status["streams"].get(table["name"], {})
    facts = next((t for t in moment.tables if t.name == table["name"]), None)
    newest = max((s.last_us or 0 for s in facts.sensors), default=0) if facts is not None else 0
    rate = counts.get("rows_per_s", 0.0)
    states = facts.counted() if facts is not None else {}
    worst = next((s for s in ("failing", "silent", "off") if states.get(s)), "live")
    return {
        "name": table["name"],
        "href": path_to("sensors", table["name"]),
        **counted("sensors", facts.count if facts is not None else 0),
        "state": worst if facts is not None and facts.sensors else "off",
        **said("rate", number(rate), rate),
        **counted("stored", counts.get("accepted", 0)),
        **counted("refused", sum(counts.get("refused", {}).values())),
        **counted("late", counts.get("late", 0)),
        **said("last", age(newest or None, moment.now_us), newest),
        "how": table["stream"]["connector"] or "pushed",
        "kept": table["options"]["retention"] or "ever",
    }
