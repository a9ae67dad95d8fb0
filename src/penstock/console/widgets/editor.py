"""The SQL editor: highlighting, completion from the catalog, and a mistake underlined where it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import orjson
from nicegui import ui

from penstock import __version__
from penstock.console.layout import href
from penstock.console.page_context import console
from penstock.console.widgets.parts import code
from penstock.errors import PenstockError
from penstock.sql.completions import KEYWORDS, SYSTEM_TABLES

# Names beyond this make the list of completions no better and the page heavier.
NAMES_MAX = 3_000


class SqlEditor:
    """An editor with a place below it for what is wrong."""

    def __init__(self, text: str, run: Callable[[], Awaitable[None]]) -> None:
        ui.add_head_html(f'<script type="module" src="{href("assets/completions.js")}?{__version__}"></script>')
        self._editor = ui.codemirror(
            text, language="SQL", theme="basicLight", line_wrapping=True, keymap={"Mod-Enter": run, "F5": run}
        )
        self._editor.classes("editor")
        self._complaint = ui.element("div").classes("complaint").props("role=alert")
        self._complaint.set_visibility(False)

    @property
    def text(self) -> str:
        return str(self._editor.value or "")

    def set_text(self, text: str) -> None:
        self._editor.value = text
        self.clear()

    def clear(self) -> None:
        self._editor.decorations = []
        self._complaint.set_visibility(False)

    def complain(self, problem: PenstockError) -> None:
        """Underline the place and say what is wrong with it."""
        place = _place(self.text, problem)
        self._editor.decorations = [] if place is None else [_mark(*place)]
        self._complaint.clear()
        with self._complaint:
            ui.label(f"{problem.message} ({problem.condition})").style("font-weight: 600")
            if place is not None:
                code("\n".join(problem.render(self.text).splitlines()[1:3]))
            if problem.hint:
                ui.label(f"Hint: {problem.hint}")
        self._complaint.set_visibility(True)

    async def offer_names(self) -> None:
        """Completions from the catalog as it is now."""
        options = await console().look(lambda: list(_options())[:NAMES_MAX])
        names = orjson.dumps(options).decode().replace("</", "<\\/")
        ui.run_javascript(
            "const offer = () => window.penstockOffer"
            f" ? window.penstockOffer({self._editor.id}, {names}) : setTimeout(offer, 50); offer();"
        )


def _options() -> Iterator[dict[str, str]]:
    database = console().database
    columns: dict[str, str] = {}
    for table in database.tables():
        yield {"label": table["name"], "type": "class", "detail": "table"}
        for column in table["columns"]:
            columns.setdefault(column["name"], f"{column['type']} of {table['name']}")
        if table["stream"]:
            columns.setdefault(table["stream"]["name"], f"stream of {table['name']}")
    for name, detail in columns.items():
        yield {"label": name, "type": "property", "detail": detail}
    for name in sorted(database.catalog.state.queries):
        yield {"label": name, "type": "interface", "detail": "query"}
    for name in SYSTEM_TABLES:
        yield {"label": name, "type": "namespace", "detail": "system table"}
    # Single words come with the editor's own SQL.
    for phrase in KEYWORDS:
        if " " in phrase:
            yield {"label": phrase, "type": "keyword"}


def _place(text: str, problem: PenstockError) -> tuple[int, int] | None:
    """Where the mistake is, as offsets of the text; at its end, the last character."""
    if problem.line is None or problem.column is None or not text:
        return None
    lines = text.splitlines(keepends=True) or [""]
    if not 1 <= problem.line <= len(lines):
        return len(text) - 1, len(text)
    start = sum(len(line) for line in lines[: problem.line - 1]) + problem.column - 1
    start = min(start, len(text) - 1)
    return start, min(len(text), start + max(1, problem.length or 1))


def _mark(start: int, end: int) -> dict[str, Any]:
    return {"kind": "mark", "from": start, "to": end, "class": "mistake"}
