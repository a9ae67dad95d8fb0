"""Small pieces that several pages are made of: tiles with a figure, cards, facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Literal

from nicegui import ui


class Tile:
    """A figure with its name above and a remark below; `set` changes it in place."""

    def __init__(self, what: str, link: str | None = None) -> None:
        tag = ui.element("a").props(f'href="{link}"') if link else ui.element("div")
        with tag.classes("tile") as self._box:
            ui.label(what).classes("what")
            self._value = ui.html("–", sanitize=False).classes("value")
            self._more = ui.label("\u00a0").classes("more")

    def set(self, value: str, unit: str = "", more: str = "", mood: Literal["", "warn", "bad"] = "") -> None:
        text = escape(value) + (f" <small>{escape(unit)}</small>" if unit else "")
        if self._value.content != text:
            self._value.set_content(text)
        self._more.set_text(more or "\u00a0")
        self._box.classes(mood, remove="warn bad")


@contextmanager
def card(title: str | None = None) -> Iterator[ui.element]:
    """A framed part of a page; gives its head, for buttons at its right."""
    with ui.element("section").classes("card"):
        head = ui.element("div").classes("head")
        if title is not None:
            with head:
                ui.html(f"<h2>{escape(title)}</h2>", sanitize=False).classes("grow")
        head.set_visibility(title is not None)
        yield head


def facts_html(rows: Sequence[tuple[str, str]]) -> str:
    """Names on the left, what they are on the right."""
    cells = "".join(f"<div>{escape(name)}</div><div>{escape(value)}</div>" for name, value in rows)
    return f'<div class="facts">{cells}</div>'


def code(text: str, wrap: bool = False) -> ui.html:
    return ui.html(f'<pre class="code{" wrap" if wrap else ""}" tabindex="0">{escape(text)}</pre>', sanitize=False)


def empty(text: str) -> ui.label:
    return ui.label(text).classes("empty")


async def sure_to_drop(what: str, consequence: str) -> bool:
    """Asks before something is gone."""
    with ui.dialog() as dialog, ui.card():
        ui.html(f"<h2>Drop this {what}?</h2>", sanitize=False)
        ui.label(consequence)
        with ui.element("div").classes("row-line").style("justify-content: flex-end"):
            ui.button("Keep it", on_click=lambda: dialog.submit(False)).props("flat").classes("quiet")
            ui.button("Drop it", on_click=lambda: dialog.submit(True)).props("flat").classes("danger")
    return bool(await dialog)
