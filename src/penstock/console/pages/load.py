"""Load: the load against its limit, the units of work by load, and load and delay over 15 minutes. Read-only."""

from __future__ import annotations

from typing import Any

from nicegui import ui
from starlette.requests import Request

from penstock.console.page import console, frame, refresh_every
from penstock.console.widgets.charts import redraw, timeline
from penstock.console.widgets.data_table import column, listing, said, show_rows
from penstock.console.widgets.parts import NOTHING, Tile, card, empty, number
from penstock.database.database import Database

UNITS_SHOWN = 200
UNITS = [
    column("unit"),
    column("kind"),
    column("load", right=True, by=True),
    column("rows_per_s", "rows/s", right=True, by=True),
    column("ns_per_row", "ns a row", right=True, by=True),
    column("selectivity", "rows out per row", right=True, wide=True, by=True),
    column("queries", wide=True, sortable=False),
]
Past = list[tuple[int, float | None, float | None]]


async def show(request: Request) -> None:
    with frame("Load", "load", request):
        view = _View()
    await refresh_every(2.0, view.refresh)


class _View:
    def __init__(self) -> None:
        with ui.element("div").classes("tiles"):
            self._load = Tile("Load")
            self._base = Tile("A cycle without rows")
            self._row = Tile("Each row")
            self._rate = Tile("Rows")
            self._delay = Tile("Delay")
        with card("Load over 15 minutes"):
            self._loads = ui.echart({}).classes("chart low")
        with card("Delay over 15 minutes"):
            self._delays = ui.echart({}).classes("chart low")
        with card("Units of work"):
            self._units = listing(UNITS, "id").classes("wraps")
            self._no_units = empty("No unit was measured yet: a standing query and readings make some.")

    async def refresh(self) -> None:
        figures, past, units = await console().look(_gather, console().database)
        self._fill_tiles(figures)
        at = [us / 1000 for us, _, _ in past]
        loads = [("load", [(x, load) for x, (_, load, _) in zip(at, past, strict=True)])]
        loads.append(("limit", [(x, figures["limit"]) for x in at]))
        redraw(self._loads, timeline(loads))
        redraw(self._delays, timeline([("delay", [(x, ms) for x, (_, _, ms) in zip(at, past, strict=True)])], "ms"))
        show_rows(self._units, units, self._no_units)

    def _fill_tiles(self, figures: dict[str, Any]) -> None:
        load, limit = figures["load"], figures["limit"]
        above = load is not None and load > limit
        shown = NOTHING if load is None else f"{load:.2f}"
        self._load.set(shown, more=f"limit {limit:g}", mood="warn" if above else "")
        self._base.set(number(figures["base_ms"]), "ms", "a in T = a + b n")
        self._row.set(number(figures["row_us"]), "µs", "b in T = a + b n")
        self._rate.set(number(figures["rows_per_s"]), "a second", "over five seconds")
        self._delay.set(number(figures["delay_ms"]), "ms", "p95 of 20 cycles, about")


def _gather(database: Database) -> tuple[dict[str, Any], Past, list[dict[str, Any]]]:
    units = database.load.units(database.costs.users, database.catalog.state)
    return database.load.figures(), database.load.past(), [unit_row(u) for u in units[:UNITS_SHOWN]]


def unit_row(unit: dict[str, Any]) -> dict[str, Any]:
    """A unit as the page shows it."""
    return {
        "id": f"{unit['kind']} {unit['unit']}",
        "unit": unit["unit"],
        "kind": unit["kind"],
        **said("load", f"{unit['load']:.3f}", unit["load"]),
        **said("rows_per_s", number(unit["rows_per_s"]), unit["rows_per_s"]),
        **said("ns_per_row", number(unit["ns_per_row"]), unit["ns_per_row"]),
        **said("selectivity", number(unit["selectivity"]), unit["selectivity"]),
        "queries": unit["queries"],
    }
