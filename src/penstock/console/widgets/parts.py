"""Small pieces that pages are made of: numbers, times and sizes as people read them, tiles with a figure, cards, facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from html import escape
from typing import Any, Literal

from nicegui import ui

from penstock.clock import SECOND

NOTHING = "–"


def number(value: float | None, digits: int = 3) -> str:
    """With about three digits that matter, and no more than the eye takes in."""
    if value is None:
        return NOTHING
    if abs(value) >= 10_000_000:
        return f"{value / 1_000_000:,.0f} M"
    if abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.{digits}g}"


def size(count: float | None) -> str:
    if count is None:
        return NOTHING
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} d"


def cycles(count: int) -> str:
    return "0" if not count else f"{count:,} cycle{'' if count == 1 else 's'}"


def age(us: int | None, now_us: int) -> str:
    """How long ago; of a time ahead of ours we say that it is now."""
    if us is None:
        return "never"
    seconds = max(0.0, (now_us - us) / SECOND)
    return "now" if seconds < 1 else f"{duration(seconds)} ago"


def cell(value: Any) -> str | int | float | bool | None:
    """A value as a table shows it; lists and records as text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(f"{value:.6g}") if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return str(value)


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
