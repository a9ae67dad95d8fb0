"""An answer as a table or a chart: which column is time, which are numbers, which tells the lines apart.

What mining functions find has charts of its own (`mining_charts`), one per group.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from nicegui import ui

from penstock.console.widgets.charts import bars, redraw, scatter, timeline
from penstock.console.widgets.data_table import HEAD, TABLE, column, set_rows
from penstock.console.widgets.mining_charts import MiningDrawing, draw_mining, has_mining
from penstock.console.widgets.parts import cell, empty
from penstock.json_rows import unique_names
from penstock.views.results import Result

Kind = Literal["time", "bar", "scatter"]
POINTS_MAX = 5_000
LINES_MAX = 12
BARS_MAX = 60


@dataclass(frozen=True, slots=True)
class Axes:
    """What stands where. `by` splits the points into lines."""

    kind: Kind
    x: str | None
    y: tuple[str, ...]
    by: str | None = None


_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_TIMES, _TEXTS = (pa.types.is_timestamp,), (pa.types.is_string,)
_LABELS = (pa.types.is_string, pa.types.is_integer)


def _columns(table: pa.Table, kinds: Sequence[Callable[[pa.DataType], bool]]) -> list[str]:
    return [f.name for f in table.schema if any(is_kind(f.type) for is_kind in kinds)]


def guess(table: pa.Table) -> Axes | None:
    """The chart that people most likely want; None where there is no number."""
    numbers, times, texts = (_columns(table, kinds) for kinds in (_NUMBERS, _TIMES, _TEXTS))
    measures = [n for n in numbers if not _is_name(n)] or numbers
    if not measures:
        return None
    if times:
        time = "ts" if "ts" in times else times[0]
        return Axes("time", time, (measures[-1],), _splitting(table, {time, measures[-1]}))
    if texts and table.num_rows <= BARS_MAX:
        return Axes("bar", texts[0], tuple(measures[:3]))
    if len(numbers) >= 2:
        return Axes("scatter", numbers[0], (next(n for n in reversed(numbers) if n != numbers[0]),))
    return Axes("bar", texts[0] if texts else None, tuple(measures[:3]))


def chart_of(table: pa.Table, axes: Axes) -> dict[str, Any]:
    """The options of the chart; of many rows the last ones."""
    rows = table.slice(max(0, table.num_rows - POINTS_MAX))
    if axes.kind == "time" and axes.x is not None:
        order = pc.sort_indices(rows, sort_keys=[(axes.x, "ascending")])
        rows = rows.take(order)
        return timeline(_lines(rows, axes, [t and t.timestamp() * 1000 for t in rows.column(axes.x).to_pylist()]))
    if axes.kind == "scatter" and axes.x is not None and axes.y:
        return scatter(_lines(rows, axes, _floats(rows.column(axes.x))), axes.x, axes.y[0])
    rows = rows.slice(0, BARS_MAX)
    labels = rows.column(axes.x).to_pylist() if axes.x else range(1, rows.num_rows + 1)
    return bars([str(cell(v)) for v in labels], [(name, _floats(rows.column(name))) for name in axes.y])


def is_measured(table: pa.Table, axes: Axes) -> bool:
    """Whether what is drawn upwards is measured and not a number that is a name."""
    kinds = [table.schema.field(y).type for y in axes.y]
    return any(pa.types.is_floating(k) or pa.types.is_decimal(k) for k in kinds)


def _lines(rows: pa.Table, axes: Axes, xs: Sequence[float | None]) -> list[tuple[str, list[Any]]]:
    found: dict[str, list[Any]] = {}
    names = rows.column(axes.by).to_pylist() if axes.by else None
    for y in axes.y:
        for place, (x, value) in enumerate(zip(xs, _floats(rows.column(y)), strict=True)):
            name = y if names is None else str(cell(names[place]))
            if len(axes.y) > 1 and names is not None:
                name = f"{name} · {y}"
            if x is not None and (name in found or len(found) < LINES_MAX):
                found.setdefault(name, []).append((x, value))
    return list(found.items())


def _splitting(table: pa.Table, taken: set[str]) -> str | None:
    """A column with a few values, most likely the sensor's name."""
    for name in _columns(table, _LABELS):
        if name in taken or not table.num_rows:
            continue
        distinct = pc.count_distinct(table.column(name)).as_py()
        if 1 < distinct <= LINES_MAX * 5 and distinct < table.num_rows:
            return name
    return None


def _is_name(column: str) -> bool:
    """Numbers that are names: of sensors mostly."""
    name = column.lower()
    return name in ("id", "x", "y", "lat", "lon") or name.endswith(("_id", " id"))


def _floats(column: pa.ChunkedArray) -> list[float | None]:
    return [None if v is None or v != v else float(v) for v in column.to_pylist()]


ROWS_SHOWN = 1_000
ELEMENTS_SHOWN = 10
_KINDS: dict[Kind, str] = {"time": "Over time", "bar": "Bars", "scatter": "Scatter"}


class AnswerView:
    """`show` takes an answer of any shape; of the same shape as before it keeps what was chosen."""

    def __init__(self, chart_first: bool = False, newest_first: bool = False) -> None:
        self._newest_first = newest_first
        self._chart_first = chart_first
        self._table = pa.table({})
        self._schema: pa.Schema | None = None
        self._axes: Axes | None = None
        self._mining = False
        self._filling = False
        with ui.element("div").classes("row-line"):
            look = {"table": "Table", "chart": "Chart"}
            self._look = ui.toggle(look, value="chart" if chart_first else "table", on_change=self._draw)
            self._look.props("unelevated dense no-caps padding='4px 12px' toggle-color=primary")
            with ui.element("div").classes("row-line") as self._choices:
                self._kind = self._select("Chart", self._chosen)
                self._x = self._select("x", self._chosen)
                self._y = self._select("y", self._chosen)
                self._by = self._select("per", self._chosen)
        self._rows = ui.table(rows=[], columns=[], row_key="_row", pagination=25).props(TABLE).classes("list")
        self._rows.add_slot("header-cell", HEAD)
        self._chart = ui.echart({}).classes("chart tall")
        self._groups = GroupCharts()
        self._nothing = empty("No rows.")
        self._draw()

    def _select(self, name: str, change: Any) -> ui.select:
        found = ui.select([], label=name, on_change=change).props("dense outlined options-dense")
        return found.classes("fit-content").style("min-width: 92px")

    def show(self, table: pa.Table) -> None:
        if self._schema is not None and table.equals(self._table):
            return
        self._table = table
        if self._schema is None or not table.schema.equals(self._schema):
            self._schema = table.schema
            self._mining = has_mining(table.schema)
            self._axes = None if self._mining else guess(table)
            if self._axes is not None:
                self._offer(self._axes)
            if self._chart_first and (self._mining or self._axes is not None):
                charted = self._axes is None or is_measured(table, self._axes)
                self._look.value = "chart" if charted else "table"
        self._draw()

    def _offer(self, axes: Axes) -> None:
        """Fill the selects with the columns that fit, and choose those of `axes`."""
        self._filling = True
        numbers, times = _columns(self._table, _NUMBERS), _columns(self._table, _TIMES)
        self._kind.set_options({k: t for k, t in _KINDS.items() if k != "time" or times}, value=axes.kind)
        xs = {"time": times, "bar": self._table.schema.names, "scatter": numbers}[axes.kind]
        self._x.set_options(xs, value=axes.x if axes.x in xs else next(iter(xs), None))
        self._y.set_options(numbers, value=axes.y[0] if axes.y and axes.y[0] in numbers else next(iter(numbers), None))
        per = {"": "–", **{n: n for n in _columns(self._table, _LABELS)}}
        self._by.set_options(per, value=axes.by if axes.by in per else "")
        self._by.set_visibility(axes.kind != "bar")
        self._filling = False

    def _chosen(self) -> None:
        if self._filling or self._axes is None:
            return
        before, chosen = self._axes, self._selected()
        if chosen.kind != before.kind:
            self._offer(chosen)
            chosen = self._selected()
        elif chosen.kind == "bar":
            chosen = replace(chosen, y=(*chosen.y, *before.y[1:]))
        self._axes = chosen
        self._draw()

    def _selected(self) -> Axes:
        kind: Kind = self._kind.value
        return Axes(kind, self._x.value, (self._y.value,), (self._by.value or None) if kind != "bar" else None)

    def _draw(self) -> None:
        filled = bool(self._table.num_rows)
        looks_at_chart = self._look.value == "chart"
        charted = looks_at_chart and self._axes is not None and filled
        mined = looks_at_chart and self._mining and filled
        self._look.set_visibility(self._mining or self._axes is not None)
        self._choices.set_visibility(looks_at_chart and self._axes is not None)
        self._nothing.set_visibility(not filled)
        self._chart.set_visibility(charted)
        self._groups.set_visibility(mined)
        self._rows.set_visibility(filled and not charted and not mined)
        if charted and self._axes is not None:
            redraw(self._chart, chart_of(self._table, self._axes))
        elif mined:
            self._groups.show(draw_mining(self._table))
        elif filled:
            self._fill_rows()

    def _fill_rows(self) -> None:
        names = unique_names(self._table.schema.names)
        numeric = [any(is_number(kind) for is_number in _NUMBERS) for kind in self._table.schema.types]
        numeric[:1] = [False]  # the first column stands at the left
        self._rows.columns = [column(n, right=right) for n, right in zip(names, numeric, strict=True)]
        first = max(0, self._table.num_rows - ROWS_SHOWN) if self._newest_first else 0
        shown = self._table.slice(first, ROWS_SHOWN)
        values = zip(*map(cells, shown.columns), strict=True)
        rows = [{"_row": i, **dict(zip(names, row, strict=True))} for i, row in enumerate(values)]
        set_rows(self._rows, rows[::-1] if self._newest_first else rows)


def cells(column: pa.ChunkedArray) -> list[str | int | float | bool | None]:
    """The values as a table shows them, of arrays the first elements: a thousand series as text would stop all pages for seconds."""
    if not pa.types.is_list(column.type):
        return [cell(value) for value in column.to_pylist()]
    lengths = pc.list_value_length(column).to_pylist()
    begins = pc.list_slice(column, 0, ELEMENTS_SHOWN).to_pylist()
    return [
        cell(begin) if length is None or length <= ELEMENTS_SHOWN else f"{str(begin)[:-1]}, … {length:,} elements]"
        for begin, length in zip(begins, lengths, strict=True)
    ]


class GroupCharts:
    """The charts of mining results, one per group, with a line that says what is not drawn."""

    def __init__(self) -> None:
        self._charts: list[tuple[ui.label, ui.echart]] = []
        self._shapes: list[tuple[object, ...]] = []
        self._box = ui.element("div").classes("groups")
        self._note = ui.label("").classes("muted small")

    def set_visibility(self, visible: bool) -> None:
        self._box.set_visibility(visible)
        self._note.set_visibility(visible and bool(self._note.text))

    def show(self, drawing: MiningDrawing) -> None:
        # A chart takes new options over its old ones, so one with other columns is made anew.
        shapes: list[tuple[object, ...]] = [(chart.columns, chart.height) for chart in drawing.charts]
        if shapes != self._shapes:
            self._shapes = shapes
            self._box.clear()
            with self._box:
                self._charts = [self._place(chart.height, len(shapes) == 1) for chart in drawing.charts]
        for (title, place), chart in zip(self._charts, drawing.charts, strict=True):
            title.set_text(chart.title)
            title.set_visibility(bool(chart.title))
            redraw(place, chart.options)
        self._note.set_text(drawing.note)
        self._note.set_visibility(bool(drawing.note))

    def _place(self, height: int | None, alone: bool) -> tuple[ui.label, ui.echart]:
        with ui.element("div").classes("group"):
            title = ui.label("").classes("num")
            chart = ui.echart({}).classes("chart tall" if alone else "chart")
            if height is not None:
                chart.style(f"height: {height}px")
        return title, chart


def as_parquet(result: Result) -> bytes:
    sink = io.BytesIO()
    table = result.table.rename_columns(unique_names(result.table.schema.names))
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()
