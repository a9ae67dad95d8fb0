"""Small pieces that several pages are made of: tiles with a figure, cards, chips, facts, tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any, Literal

from nicegui import ui

TABLE = "flat dense :rows-per-page-options=[25,50,200]"


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


def chip(text: str, kind: str = "") -> ui.label:
    return ui.label(text).classes(f"chip {kind or text}")


def facts(rows: Sequence[tuple[str, str]]) -> ui.html:
    """Names on the left, what they are on the right."""
    return ui.html(facts_html(rows), sanitize=False)


def facts_html(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(f"<div>{escape(name)}</div><div>{escape(value)}</div>" for name, value in rows)
    return f'<div class="facts">{cells}</div>'


def code(text: str, wrap: bool = False) -> ui.html:
    return ui.html(f'<pre class="code{" wrap" if wrap else ""}" tabindex="0">{escape(text)}</pre>', sanitize=False)


def empty(text: str) -> ui.label:
    return ui.label(text).classes("empty")


def column(
    name: str,
    label: str | None = None,
    *,
    right: bool = False,
    wide: bool = False,
    sortable: bool = True,
) -> dict[str, Any]:
    """A column of `listing`; `wide` ones are left out on a phone."""
    kind = "wide" if wide else ""
    return {
        "name": name,
        "label": name if label is None else label,
        "field": name,
        "align": "right" if right else "left",
        "sortable": sortable,
        "classes": kind,
        "headerClasses": kind,
    }


def listing(columns: list[dict[str, Any]], key: str, per_page: int = 50, clickable: bool = False) -> ui.table:
    """A dense table whose rows are set later; columns `state` are chips and `spark` lines."""
    found = ui.table(columns=columns, rows=[], row_key=key, pagination=per_page).props(TABLE)
    found.classes("list clickable" if clickable else "list")
    names = {c["name"] for c in columns}
    if "state" in names:
        found.add_slot(
            "body-cell-state",
            '<q-td :props="props"><span class="chip" :class="props.value">{{props.value}}</span></q-td>',
        )
    if "spark" in names:
        found.add_slot(
            "body-cell-spark",
            '<q-td :props="props"><svg class="spark" viewBox="0 0 110 26" preserveAspectRatio="none" aria-hidden="true">'
            '<polyline :points="props.value"/></svg></q-td>',
        )
    return found


def set_rows(table: ui.table, rows: list[dict[str, Any]]) -> None:
    """New rows; the line with pages is only there where there is more than one."""
    table.rows = rows
    few = len(rows) <= int(table.pagination.get("rowsPerPage") or 0)
    table.props(add="hide-bottom" if few else "", remove="" if few else "hide-bottom")
    table.update()


def spark_points(trail: Sequence[tuple[int, float]], seconds: int = 120, width: int = 110, height: int = 26) -> str:
    """The points of a line through a sensor's last two minutes, scaled to its own least and greatest."""
    if len(trail) < 2:
        return ""
    end = trail[-1][0]
    low, high = min(v for _, v in trail), max(v for _, v in trail)
    span = (high - low) or 1.0
    points = []
    for second, value in trail:
        x = width - (end - second) / seconds * width
        y = height - 2 - (value - low) / span * (height - 4) if high > low else height / 2
        points.append(f"{x:.0f},{y:.1f}")
    return " ".join(points)


async def sure_to_drop(what: str, consequence: str) -> bool:
    """Asks before something is gone."""
    with ui.dialog() as dialog, ui.card():
        ui.html(f"<h2>Drop this {what}?</h2>", sanitize=False)
        ui.label(consequence)
        with ui.element("div").classes("row-line").style("justify-content: flex-end"):
            ui.button("Keep it", on_click=lambda: dialog.submit(False)).props("flat").classes("quiet")
            ui.button("Drop it", on_click=lambda: dialog.submit(True)).props("flat").classes("danger")
    return bool(await dialog)
