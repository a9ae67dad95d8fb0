"""Tables of the console: dense, ordered by what their cells mean, and to be walked through with the keyboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

TABLE = "flat dense :rows-per-page-options=[25,50,200]"
_BY = "_by"  # beside a cell that is a text for people: what it is ordered by
# Numbers by their value, texts as people count ("probe 2" before "probe 10"), what is missing last.
_ORDER = """(() => {
  const texts = new Intl.Collator(undefined, {numeric: true});
  return (a, b, x, y) => {
    const p = %s, q = %s;
    if (p == null || q == null) return (p == null) - (q == null);
    return typeof p === "number" && typeof q === "number" ? p - q : texts.compare(p, q);
  };
})()"""
HEAD = """<q-th :props="props" :tabindex="props.col.sortable ? 0 : null" @keydown.enter="props.sort(props.col)"
  >{{props.col.label}}</q-th>"""
# A click on it is one on its row; with a modifier the browser opens what it leads to beside this page.
_LINK = """<q-td :props="props"><a class="door" :href="props.row.href" @click.exact.prevent @click.ctrl.stop
  @click.meta.stop @click.shift.stop>{{props.value}}</a></q-td>"""
_STATE = '<q-td :props="props"><span class="chip" :class="props.value">{{props.value}}</span></q-td>'
_SPARK = """<q-td :props="props"><svg class="spark" viewBox="0 0 110 26" preserveAspectRatio="none" aria-hidden="true"
  ><polyline :points="props.value"/></svg></q-td>"""


def column(
    name: str,
    label: str | None = None,
    *,
    right: bool = False,
    wide: bool = False,
    sortable: bool = True,
    by: bool = False,
) -> dict[str, Any]:
    """A column of `listing`; `wide` ones are left out on a phone, and `by` says that its cells are made by `said`."""
    kind = "wide" if wide else ""
    values = (f'x["{name}{_BY}"]', f'y["{name}{_BY}"]') if by else ("a", "b")
    return {
        "name": name,
        "label": name if label is None else label,
        "field": name,
        "align": "right" if right else "left",
        "sortable": sortable,
        ":sort": _ORDER % values,
        "classes": kind,
        "headerClasses": f"{kind} mark" if name == "state" else kind,
    }


def said(name: str, text: str, by: float | str | None) -> dict[str, Any]:
    """A cell that shows a text and is ordered by something else, mostly a number."""
    return {name: text, name + _BY: by}


def counted(name: str, count: int | None) -> dict[str, Any]:
    """A cell with a count, in full."""
    return said(name, "–" if count is None else f"{count:,}", count)


def listing(
    columns: list[dict[str, Any]],
    key: str,
    per_page: int = 50,
    opens: Callable[[str], None] | None = None,
    opened_by: str = "name",
) -> ui.table:
    """A dense table. Its rows are set later; columns `state` are chips and `spark` lines.

    With `opens`, a click on a row calls it with the row's `opened_by`. Such rows have an `href`, which their first cell leads to.
    """
    found = ui.table(columns=columns, rows=[], row_key=key, pagination=per_page).props(TABLE)
    found.classes("list" if opens is None else "list clickable")
    found.add_slot("header-cell", HEAD)
    found.add_slot("body-cell-state", _STATE)
    found.add_slot("body-cell-spark", _SPARK)
    if opens is not None:
        found.add_slot(f"body-cell-{columns[0]['name']}", _LINK)
        found.on("rowClick", lambda event: opens(event.args[1][opened_by]), [[], [opened_by], None])
    return found


def find_box() -> ui.input:
    box = ui.input(placeholder="Find").props('dense outlined clearable aria-label="Find"')
    return box.classes("fit-content")


def set_rows(table: ui.table, rows: list[dict[str, Any]]) -> None:
    """New rows; the line with pages is only there where there is more than one."""
    table.rows = rows
    few = len(rows) <= int(table.pagination.get("rowsPerPage") or 0)
    table.props(add="hide-bottom" if few else "", remove="" if few else "hide-bottom")
    table.update()


def show_rows(table: ui.table, rows: list[dict[str, Any]], nothing: ui.label) -> None:
    """New rows; where there are none, `nothing` says so in the table's place."""
    set_rows(table, rows)
    table.set_visibility(bool(rows))
    nothing.set_visibility(not rows)


def spark_points(trail: Sequence[tuple[int, float]]) -> str:
    """The points of a line through a sensor's last two minutes, scaled to its own least and greatest."""
    if len(trail) < 2:
        return ""
    end, seconds, width, height = trail[-1][0], 120, 110, 26
    low, high = min(v for _, v in trail), max(v for _, v in trail)
    xs = [width - (end - second) / seconds * width for second, _ in trail]
    ys = [height - 2 - (v - low) / (high - low) * (height - 4) if high > low else height / 2 for _, v in trail]
    return " ".join(f"{x:.0f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
