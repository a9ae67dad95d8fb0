"""The dialog that makes a question a standing query."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui

from penstock.console.page_context import console
from penstock.console.widgets.parts import code
from penstock.errors import PenstockError, error


class SaveQueryDialog:
    """Asks for a name; the SELECT itself was typed before."""

    def __init__(self) -> None:
        with ui.dialog() as self._dialog, ui.card():
            ui.html("<h2>Keep as a standing query</h2>", sanitize=False)
            self._text = ui.element("div")
            self._name = ui.input("Name").props('outlined dense autofocus autocomplete="off"')
            self._description = ui.input("What it is for (optional)").props('outlined dense autocomplete="off"')
            self._wrong = ui.label("").classes("complaint").props("role=alert")
            with ui.element("div").classes("row-line").style("justify-content: flex-end"):
                ui.button("Cancel", on_click=self._dialog.close).props("flat").classes("quiet")
                ui.button("Keep", icon="push_pin", on_click=self._save).props("unelevated").classes("main-action")
            self._name.on("keydown.enter", self._save)
        self._sql = ""
        self._complain: Callable[[PenstockError], None] = lambda _: None

    async def ask(self, sql: str, complain: Callable[[PenstockError], None]) -> str | None:
        """The name under which the query is saved now; None where the user cancelled. Mistakes in the text go to `complain`."""
        self._sql, self._complain = sql, complain
        self._wrong.set_visibility(False)
        self._text.clear()
        with self._text:
            code(sql, wrap=True)
        kept: str | None = await self._dialog
        return kept

    async def _save(self) -> None:
        name = (self._name.value or "").strip()
        query = {"name": name, "sql": self._sql, "description": (self._description.value or "").strip() or None}
        try:
            if not name:
                raise error("invalid_parameter", detail="a standing query needs a name")
            await console().ask(lambda owner: console().database.register([query], owner=owner))
        except PenstockError as problem:
            if problem.line is not None:
                problem.message = problem.message.partition("): ")[2] or problem.message
                self._complain(problem)
                self._dialog.close()
                return
            self._wrong.set_text(problem.message + (f" Hint: {problem.hint}" if problem.hint else ""))
            self._wrong.set_visibility(True)
            return
        self._dialog.submit(name)
