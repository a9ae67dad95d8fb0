"""Readings of a file, pushed to a table by a click."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal
from urllib.parse import quote

import orjson
from nicegui import events, ui

from penstock import __version__
from penstock.console.layout import href
from penstock.server.http.decode import ARROW, CSV, JSON, NDJSON, PARQUET

_KINDS = {".csv": CSV, ".parquet": PARQUET, ".json": JSON, ".ndjson": NDJSON, ".jsonl": NDJSON, ".arrow": ARROW}
_EVENT = "penstock_uploaded"


def upload_button(table: str, changed: Callable[[], Awaitable[None]]) -> None:
    """A button that asks for a file, and says how many of its readings were stored."""
    ui.add_head_html(f'<script src="{href("assets/uploading.js")}?{__version__}"></script>')
    button = ui.button("Upload", icon="upload_file").props("flat").classes("quiet")
    button.tooltip("Readings from a file: " + ", ".join(_KINDS))
    arguments = orjson.dumps([f"/v1/tables/{quote(table, safe='')}/readings", _KINDS, _EVENT]).decode()
    button.on("click", js_handler=f"() => window.penstockUpload(...{arguments})")

    async def tell(event: events.GenericEventArguments) -> None:
        text, kind = _said(event.args)
        ui.notify(text, type=kind, position="top", multi_line=True, timeout=8000, close_button="Close")
        await changed()

    ui.on(_EVENT, tell)


def _said(found: dict[str, Any]) -> tuple[str, Literal["positive", "warning", "negative"]]:
    problem = found.get("error")
    if isinstance(problem, dict):
        hint = f" Hint: {problem['hint']}." if problem.get("hint") else ""
        return f"Nothing was stored: {problem.get('message')}.{hint}", "negative"
    count = found["accepted"]
    stored = f"{count:,} reading{'' if count == 1 else 's'} stored"
    first = found.get("first")
    if not isinstance(first, dict):
        return f"{stored}.", "positive"
    refused = (
        f"{found.get('refused'):,} refused, the first of them, number {first['index'] + 1}, because: {first['message']}"
    )
    return f"{stored}, {refused}.", "warning"
