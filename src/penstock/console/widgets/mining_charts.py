"""What mining functions find, as charts: lines with bands, marks, steps, and the places of a period as strips.

The types of an answer's columns say what is drawn (`_SHAPES`), whichever query they come from. A column has a STRUCT per
row (UNNEST) or an ARRAY of STRUCT, or the columns themselves are the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from html import escape
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.console.widgets.charts import BAD, GREY, PALETTE, axis, base
from penstock.console.widgets.parts import cell, number

GROUPS_MAX = 12
ROWS_MAX = 5_000
ELEMENTS_MAX = 2_000  # of a column in a chart: more than a chart has pixels
_LABELLED_PLACES = 48  # the cells of a longer strip have no room for a symbol
_PAD_MS = 3_600_000.0  # how far the mean beside a single change is drawn, where no series says how far it goes
_SHORT = "v => typeof v === 'number' ? String(Number(v.toPrecision(6))) : v ?? '–'"
_FAINT = "rgba(135, 147, 161, 0.35)"
_DATES = {"color": GREY, "fontSize": 11, "hideOverlap": True, "formatter": {"day": "{MMM} {d}"}}
IsKind = Callable[[pa.DataType], bool]


@dataclass(frozen=True, slots=True)
class MiningChart:
    """A chart of one group. `columns`: those that are drawn in it. `height`, in pixels: None is that of other charts."""

    title: str
    columns: tuple[str, ...]
    options: dict[str, Any]
    height: int | None = None


@dataclass(frozen=True, slots=True)
class MiningDrawing:
    """The charts of the first groups, and what is left out of them."""

    charts: list[MiningChart]
    note: str


@dataclass(frozen=True, slots=True)
class _Layer:
    """What one column has for one group. `reach`: from when until when the series of the same chart goes, if there is one."""

    name: str  # "" where columns are the fields
    elements: pa.StructArray
    colour: str
    reach: tuple[float, float] | None

    def numbers(self, name: str) -> list[float | None]:
        values = self.elements.field(name).cast(pa.float64()).to_pylist()
        return [v if v is not None and abs(v) < float("inf") else None for v in values]  # NaN is not less

    def times(self) -> list[float]:
        return _milliseconds(self.elements)

    def part(self, what: str) -> str:
        return f"{self.name} · {what}" if self.name else what


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Series that a layer adds to a chart. `more` replaces options of the chart."""

    series: list[dict[str, Any]]
    more: dict[str, Any] = field(default_factory=dict)
    height: int | None = None


@dataclass(frozen=True, slots=True)
class _Shape:
    """STRUCTs with these `fields`, and how they are drawn. Layers over the same axes share a chart, except those `alone`."""

    fields: Mapping[str, IsKind]
    x: str
    y: str
    draw: Callable[[_Layer], _Drawn]
    alone: bool = False

    def fits(self, types: Mapping[str, pa.DataType]) -> bool:
        return all(name in types and is_kind(types[name]) for name, is_kind in self.fields.items())


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that can be drawn; without a name, all columns together."""

    name: str
    shape: _Shape
    is_array: bool = False


def _milliseconds(elements: pa.StructArray) -> list[float]:
    """The times `at`, since 1970."""
    return [us / 1000 for us in elements.field("at").cast(pa.int64()).to_pylist()]


def _points(layer: _Layer, xs: Sequence[float | None], fields: Sequence[str]) -> list[Any]:
    return [list(point) for point in zip(xs, *(layer.numbers(f) for f in fields), strict=True)]


def _line(layer: _Layer, xs: Sequence[float | None], fields: Sequence[str], name: str) -> dict[str, Any]:
    """A line through the first of the fields, with a dot where both neighbours are missing; a tooltip has all fields."""
    points = _points(layer, xs, fields)
    missing = [True, *(point[1] is None for point in points), True]
    lonely = [i for i in range(len(points)) if missing[i : i + 3] == [True, False, True]]
    for i in lonely:
        points[i] = {"value": points[i], "symbolSize": 5}
    return {
        "name": name,
        "type": "line",
        **_named(fields),
        "data": points,
        "symbol": "circle",
        "symbolSize": 0,
        "showSymbol": bool(lonely),
        "showAllSymbol": True,
        "lineStyle": {"width": 1.6},
        "itemStyle": {"color": layer.colour},
        "z": 3,
    }


def _marks(layer: _Layer, fields: Sequence[str], name: str, **more: Any) -> dict[str, Any]:
    """A mark over each time `at`, at the first of the fields."""
    points = _points(layer, layer.times(), fields)
    return {"name": name, "type": "scatter", **_named(fields), "data": points, "z": 5, **more}


def _named(fields: Sequence[str]) -> dict[str, Any]:
    return {"dimensions": ["x", *fields], "encode": {"x": "x", "y": fields[0], "tooltip": list(fields)}}


def _backdrop(layer: _Layer, name: str, data: list[list[float | None]], **more: Any) -> dict[str, Any]:
    """A line behind the others, of which a tooltip says nothing."""
    return {
        "name": name,
        "type": "line",
        "data": data,
        "showSymbol": False,
        "silent": True,
        "tooltip": {"show": False},
        "itemStyle": {"color": layer.colour},
        "z": 1,
        **more,
    }


def _band(layer: _Layer, xs: Sequence[float | None]) -> list[dict[str, Any]]:
    """The area between lower and upper, stacked on a line that is not seen."""
    lower, upper = layer.numbers("lower"), layer.numbers("upper")
    width = [None if low is None or high is None else high - low for low, high in zip(lower, upper, strict=True)]
    # Otherwise ECharts stacks what is above 0 apart from what is below.
    stacked = {"stack": layer.part("band"), "stackStrategy": "all", "lineStyle": {"opacity": 0}}
    name = layer.part("band")  # of both: the legend has it once
    if len(xs) == 1:
        return [_bars(layer, xs, name)]
    return [
        _backdrop(layer, name, [list(p) for p in zip(xs, lower, strict=True)], **stacked),
        _backdrop(layer, name, [list(p) for p in zip(xs, width, strict=True)], areaStyle={"opacity": 0.22}, **stacked),
    ]


def _bars(layer: _Layer, xs: Sequence[float | None], name: str) -> dict[str, Any]:
    """A bar from lower to upper at each of its own places."""
    ends: list[list[float | None]] = []
    for x, low, high in zip(xs, layer.numbers("lower"), layer.numbers("upper"), strict=True):
        ends += [[x, low], [x, high], [x, None]]
    return _backdrop(layer, name, ends, lineStyle={"width": 8, "opacity": 0.45, "cap": "butt"}, z=2)


def _draw_series(layer: _Layer) -> _Drawn:
    return _Drawn([_line(layer, layer.times(), ["value"], layer.name)])


def _draw_forecast(layer: _Layer) -> _Drawn:
    xs = layer.times()
    return _Drawn([*_band(layer, xs), _line(layer, xs, ["value", "lower", "upper"], layer.part("forecast"))])


def _draw_baseline(layer: _Layer) -> _Drawn:
    xs = layer.numbers("place")
    return _Drawn([*_band(layer, xs), _line(layer, xs, ["expected", "lower", "upper"], layer.part("expected"))])


def _draw_anomalies(layer: _Layer) -> _Drawn:
    """A mark per element and a bar from lower to upper; only what is not inside is red. Between elements no band is known."""
    value, low, high = (layer.elements.field(name) for name in ("value", "lower", "upper"))
    hair = pc.multiply(pc.subtract(high, low), 1e-9)  # an anomaly that just reaches its threshold is none the less one
    inside = pc.and_(pc.greater(value, pc.add(low, hair)), pc.less(value, pc.subtract(high, hair)))
    drawn = [_bars(layer, layer.times(), layer.part("expected"))]
    for mask, what, symbol, colour in (
        (inside, "as expected", "circle", GREY),
        (pc.invert(inside), "anomaly", "diamond", BAD),
    ):
        some = replace(layer, elements=layer.elements.filter(mask))
        if len(some.elements):
            look = {"symbol": symbol, "symbolSize": 13, "itemStyle": {"color": colour, "opacity": 1}}
            drawn.append(_marks(some, ["value", "expected", "lower", "upper", "score"], layer.part(what), **look))
    return _Drawn(drawn)


def _draw_steps(layer: _Layer) -> _Drawn:
    """The mean between changes, as far as the series goes."""
    times, before, after = layer.times(), layer.numbers("before"), layer.numbers("after")
    pad = (times[-1] - times[0]) * 0.15 or _PAD_MS
    begin, end = layer.reach or (times[0] - pad, times[-1] + pad)
    steps = _line(layer, times, ["after"], layer.part("mean, with a dot where it changes"))
    first, last = ({"value": [at, mean], "symbol": "none"} for at, mean in ((begin, before[0]), (end, after[-1])))
    steps["data"] = [first, *_points(layer, times, ["after"]), last]
    steps |= {
        "step": "end",
        "showSymbol": True,
        "showAllSymbol": True,
        "symbolSize": 9,
        "lineStyle": {"width": 2.4},
        "z": 4,
    }
    return _Drawn([steps])


def _draw_matches(layer: _Layer) -> _Drawn:
    look = {"symbol": "circle", "symbolSize": 10, "itemStyle": {"color": layer.colour, "opacity": 1}}
    return _Drawn([_marks(layer, ["distance"], layer.part("match"), **look)])


def _draw_clusters(layer: _Layer) -> _Drawn:
    """A line per cluster through the numbers of its centre."""
    lines = []
    for place, cluster in enumerate(layer.elements.to_pylist()):
        name = layer.part(f"{cluster['share']:.0%}, {number(cluster['size'])} rows")
        points = [[dimension, value] for dimension, value in enumerate(cluster["center"], start=1)]
        colour = {"color": PALETTE[place % len(PALETTE)]}
        lines.append({"name": name, "type": "line", "data": points, "symbolSize": 7, "itemStyle": colour})
    return _Drawn(lines)


def _draw_patterns(layer: _Layer) -> _Drawn:
    """A strip per pattern, the first at the top. Places that a pattern says nothing about are empty."""
    patterns = layer.elements.to_pylist()
    letters = [(row, letter["place"], letter["value"]) for row, p in enumerate(patterns) for letter in p["items"]]
    symbols = sorted({symbol for _, _, symbol in letters}, key=lambda s: (not s.isdecimal(), len(s) * s.isdecimal(), s))
    places = 1 + max((place for _, place, _ in letters), default=0)
    strips = {
        "name": layer.part("patterns"),
        "type": "heatmap",
        "data": [
            {
                "value": [place, row, symbols.index(symbol)],
                "symbol": symbol,
                "text": escape(f"place {place}: symbol {symbol}", quote=False),  # ECharts takes it as HTML
            }
            for row, place, symbol in letters
        ],
        "itemStyle": {"borderColor": _FAINT, "borderWidth": 1},
        "label": {
            "show": places <= _LABELLED_PLACES,
            "color": "#ffffff",
            "fontWeight": 600,
            ":formatter": "p => p.data.symbol",
        },
    }
    counts = [f"in {p['count']} of {p['segments']} periods" for p in patterns]
    lined: dict[str, Any] = {"splitLine": {"show": True, "lineStyle": {"color": _FAINT}}}
    pieces = [
        {
            "value": i,
            "label": f"symbol {symbol}",
            "color": PALETTE[(int(symbol) if symbol.isdecimal() else i) % len(PALETTE)],
        }
        for i, symbol in enumerate(symbols)
    ]
    more = {
        "tooltip": {"trigger": "item", "confine": True, ":formatter": "p => p.data.text"},
        "grid": {"left": 8, "right": 16, "top": 34, "bottom": 26, "containLabel": True},
        "xAxis": _below("category", "place of the period, in slots from its start", data=list(range(places)), **lined),
        "yAxis": axis("category", data=counts, inverse=True, **lined),
        "legend": {"show": False},
        "visualMap": {
            "type": "piecewise",
            "dimension": 2,
            "orient": "horizontal",
            "top": 0,
            "left": "center",
            "itemSymbol": "rect",
            "textStyle": {"color": GREY, "fontSize": 11},
            "pieces": pieces,
        },
    }
    return _Drawn([strips], more, 96 + 32 * len(counts))


_is_text: IsKind = pa.types.is_string
_is_list: IsKind = pa.types.is_list
_is_time: IsKind = pa.types.is_timestamp


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _is_letters(kind: pa.DataType) -> bool:
    return bool(_is_list(kind) and _fields(kind.value_type).keys() >= {"place", "value"})


def _are(is_kind: IsKind, *names: str) -> dict[str, IsKind]:
    return dict.fromkeys(names, is_kind)


_AT = _are(_is_time, "at")
_OVER_TIME = "time, UTC"
_SERIES = _Shape({**_AT, **_are(_is_number, "value")}, _OVER_TIME, "value", _draw_series)
_SHAPES = (
    _Shape(
        {**_AT, **_are(_is_number, "value", "expected", "lower", "upper", "score")},
        _OVER_TIME,
        "value",
        _draw_anomalies,
    ),
    _Shape({**_AT, **_are(_is_number, "value", "lower", "upper")}, _OVER_TIME, "value", _draw_forecast),
    _Shape({**_AT, **_are(_is_number, "before", "after")}, _OVER_TIME, "value", _draw_steps),
    _Shape({**_AT, **_are(_is_number, "distance")}, _OVER_TIME, "distance", _draw_matches),
    _SERIES,
    _Shape(
        _are(_is_number, "place", "expected", "lower", "upper"),
        "place of the season, in slots from its start",
        "value",
        _draw_baseline,
    ),
    _Shape({"items": _is_letters, **_are(_is_number, "count", "segments")}, "", "", _draw_patterns, alone=True),
    _Shape(
        {**_are(_is_number, "size", "share"), "center": _is_list},
        "number of the centre",
        "value",
        _draw_clusters,
        alone=True,
    ),
)
"""The first that fits counts, so those with more fields come before those with fewer of the same."""


def has_mining(schema: pa.Schema) -> bool:
    """Whether an answer of these columns can be drawn here."""
    return bool(_columns(schema))


def draw_mining(table: pa.Table) -> MiningDrawing:
    """A chart per group, or one per kind of axis where its columns have several; of many rows the last ones."""
    rows = table.slice(max(0, table.num_rows - ROWS_MAX))
    columns = _columns(rows.schema)
    names = _keys(rows.schema, columns)
    groups: dict[tuple[Any, ...], list[int]] = {}
    values = (
        zip(*(rows.column(name).to_pylist() for name in names), strict=True) if names else iter([()] * rows.num_rows)
    )
    for row, key in enumerate(values):
        groups.setdefault(key, []).append(row)
    charts: list[MiningChart] = []
    drawn, unseen, cut = 0, len(groups), False
    for key in sorted(groups, key=_rank):
        if drawn == GROUPS_MAX:
            break
        unseen -= 1
        found = [(column, _elements(rows, column, groups[key])) for column in columns]
        cut = cut or any(len(elements) > ELEMENTS_MAX for _, elements in found)
        title = " · ".join(
            f"{name} = {'NULL' if value is None else cell(value)}" for name, value in zip(names, key, strict=True)
        )
        before = len(charts)
        charts += _charts(title, [(c, e.slice(max(0, len(e) - ELEMENTS_MAX))) for c, e in found if len(e)])
        drawn += len(charts) > before
    notes = []
    if not charts:
        notes.append("No elements to draw.")
    if unseen:
        notes.append(f"{drawn} groups are drawn, {unseen:,} more are not.")
    if cut:
        notes.append(f"Only the last {ELEMENTS_MAX:,} elements of longer series are drawn.")
    return MiningDrawing(charts, " ".join(notes))


def _fields(kind: pa.DataType) -> dict[str, pa.DataType]:
    return {f.name: f.type for f in kind} if pa.types.is_struct(kind) else {}


def _columns(schema: pa.Schema) -> list[_Column]:
    found = []
    for column in schema:
        is_array = _is_list(column.type)
        types = _fields(column.type.value_type if is_array else column.type)
        found += [_Column(column.name, shape, is_array) for shape in _SHAPES if shape.fits(types)][:1]
    if not found:
        # Two columns are too little to tell; a time and a number are a line without this module, too.
        types = {column.name: column.type for column in schema}
        found = [_Column("", shape) for shape in _SHAPES if len(shape.fields) > 2 and shape.fits(types)][:1]
    return found


def _keys(schema: pa.Schema, columns: Sequence[_Column]) -> list[str]:
    """The columns that tell groups apart: what else a row has, is the same in all rows of a group."""
    apart = {name for column in columns if not column.name for name in column.shape.fields}
    # Numbers beside fields may belong to the element.
    is_key = [_is_text, _is_time, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date]
    is_key += [] if apart else [pa.types.is_floating, pa.types.is_decimal]
    return [c.name for c in schema if c.name not in apart and any(is_kind(c.type) for is_kind in is_key)]


def _rank(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Groups by their names, those of newer windows first."""
    times = [-value.timestamp() for value in key if isinstance(value, datetime)]
    return (times, [(value is None, 0 if value is None else value) for value in key if not isinstance(value, datetime)])


def _elements(rows: pa.Table, column: _Column, places: list[int]) -> pa.StructArray:
    """What a column has for the group with these rows: an array is the same in all of them."""
    if not column.name:
        names = list(column.shape.fields)
        taken = rows.select(names).take(places).combine_chunks()
        elements = pa.StructArray.from_arrays([_whole(taken.column(name)) for name in names], names)
    elif column.is_array:
        elements = _whole(rows.column(column.name).slice(places[0], 1)).flatten()
    else:
        elements = _whole(rows.column(column.name).take(places))
    elements = elements.filter(pc.is_valid(elements))
    return elements.filter(pc.is_valid(elements.field(next(iter(column.shape.fields)))))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _charts(title: str, found: Sequence[tuple[_Column, pa.StructArray]]) -> Iterator[MiningChart]:
    """One per pair of axes."""
    series = [_milliseconds(elements) for column, elements in found if column.shape is _SERIES]
    reach = (min(s[0] for s in series), max(s[-1] for s in series)) if series else None
    parts: dict[tuple[str, ...], dict[str, _Drawn]] = {}
    for place, (column, elements) in enumerate(found):
        layer = _Layer(column.name, elements, PALETTE[place % len(PALETTE)], reach)
        axes = (column.shape.x, column.shape.y, column.name if column.shape.alone else "")
        parts.setdefault(axes, {})[column.name] = column.shape.draw(layer)
    for (x, y, _), drawn in parts.items():
        options = base(legend=True)
        options["useUTC"] = True
        options["tooltip"] |= {":valueFormatter": _SHORT}
        options["grid"] |= {"top": 54, "bottom": 26}
        options["xAxis"] = (
            _below("time", x, axisLabel=_DATES) if x == _OVER_TIME else _below("value", x, minInterval=1, max="dataMax")
        )
        options["yAxis"] = axis("value", y, scale=True)
        options["series"] = [series for part in drawn.values() for series in part.series]
        options["legend"] |= {"itemWidth": 15, "itemHeight": 9, "itemGap": 7, "data": _legend(options["series"])}
        for part in drawn.values():
            options |= part.more
        yield MiningChart(title, tuple(drawn), options, next(iter(drawn.values())).height)


def _legend(series: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each name once, beside what it looks like."""
    found: dict[str, dict[str, Any]] = {}
    for one in series:
        found[one["name"]] = {"name": one["name"]}
        if one.get("silent"):
            found[one["name"]] |= {"icon": "rect", "itemStyle": {"opacity": 0.4}}
        elif one["type"] == "scatter":
            found[one["name"]] |= {"icon": one["symbol"]}
    return list(found.values())


def _below(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """The axis below a chart, with its name in the middle."""
    return axis(kind, name, nameLocation="middle", nameGap=26, **more)
