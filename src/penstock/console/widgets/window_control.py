"""The window of a standing query, moved by clicks: how far back it reaches, or how many rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from penstock.catalog.model import QueryDefinition
from penstock.console.page_context import attempt, quoted
from penstock.sql.plan import plan_from_json

# Most windows end now and begin some time before.
REACHES = {
    "10 SECONDS": "10 s",
    "1 MINUTE": "1 min",
    "10 MINUTES": "10 min",
    "1 HOUR": "1 h",
    "1 DAY": "1 d",
}


class WindowControl:
    """Buttons for the usual reaches, and the two ends to type."""

    def __init__(self, definition: QueryDefinition, changed: Callable[[], Awaitable[None]]) -> None:
        self._name = definition.name
        self._changed = changed
        self._known = ""
        self._now = ui.label("").classes("mono")
        with ui.element("div") as self._controls:
            self._controls.style("display: grid; gap: 12px")
            with ui.element("div").classes("row-line"):
                ui.label("The last").classes("muted small")
                for reach, text in REACHES.items():
                    button = ui.button(text, on_click=lambda reach=reach: self._reach(reach))
                    button.props("outline dense no-caps padding='2px 10px'")
            with ui.element("div").classes("row-line").style("flex-wrap: nowrap"):
                self._begin = ui.input("BEGIN", placeholder="NOW - 5 MINUTES").props("outlined dense")
                self._end = ui.input("END", placeholder="NOW").props("outlined dense")
                ui.button("Set", on_click=self._set).props("outline")
        self._fixed = ui.label("This query has no window of its own that could be moved.").classes("muted small")
        self.follow(definition)

    def follow(self, definition: QueryDefinition) -> None:
        """Show the window as it is; text that is being typed meanwhile stays."""
        if definition.sql == self._known:
            return
        self._known = definition.sql
        kernel = plan_from_json(definition.plan).kernel
        movable = kernel is not None
        self._now.set_text(str(kernel.windows) if kernel is not None else "")
        self._controls.set_visibility(movable)
        self._fixed.set_visibility(not movable)

    async def _reach(self, reach: str) -> None:
        await self._alter(f"SET BEGIN (NOW - {reach}) END (NOW)")

    async def _set(self) -> None:
        begin, end = str(self._begin.value or "").strip(), str(self._end.value or "").strip()
        if not begin and not end:
            ui.notify("Say where the window begins, or where it ends.", type="warning", position="top")
            return
        await self._alter("SET" + (f" BEGIN ({begin})" if begin else "") + (f" END ({end})" if end else ""))

    async def _alter(self, change: str) -> None:
        if await attempt(f"ALTER QUERY {quoted(self._name)} {change}", said="The window has moved.") is not None:
            await self._changed()
