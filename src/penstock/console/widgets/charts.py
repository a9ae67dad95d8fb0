"""Charts as ECharts reads them, in colours that hold on light and dark alike, and the map of sensors where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from nicegui import ui

from penstock.console.server_status import SensorFacts, TableFacts
from penstock.console.widgets.parts import age, number

PALETTE = [
    "#1098ad", "#f08c00", "#7048e8", "#37b24d", "#e64980", "#4263eb",
    "#a9652b", "#0ca678", "#c2255c", "#868e96", "#94d82d", "#ae3ec9",
]  # fmt: skip
GREY = "#8793a1"
BAD = "#fa5252"
_FAINT = "rgba(135, 147, 161, 0.22)"
_LABEL = {"color": GREY, "fontSize": 11}


def axis(kind: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    """An axis without ornaments."""
    return {
        "type": kind,
        "name": name,
        "nameTextStyle": {"color": GREY, "fontSize": 11},
        "axisLabel": {**_LABEL, "hideOverlap": True},
        "axisLine": {"show": kind != "value", "lineStyle": {"color": _FAINT}},
        "axisTick": {"show": False},
        "splitLine": {"show": kind == "value", "lineStyle": {"color": _FAINT}},
        **more,
    }


def base(legend: bool = False) -> dict[str, Any]:
    """What all charts have in common."""
    return {
        "animation": False,
        "color": PALETTE,
        "backgroundColor": "transparent",
        "textStyle": {"color": GREY, "fontFamily": "system-ui, sans-serif"},
        "grid": {"left": 8, "right": 16, "top": 34 if legend else 16, "bottom": 6, "containLabel": True},
        "tooltip": {"trigger": "axis", "confine": True, "appendToBody": False},
        "legend": {"show": legend, "top": 0, "type": "scroll", "textStyle": _LABEL, "pageIconColor": GREY},
    }


def redraw(chart: ui.echart, options: dict[str, Any]) -> None:
    """Show other options in the place of those before."""
    chart.options.clear()
    chart.options.update(options)
    chart.update()


def timeline(series: Sequence[tuple[str, Sequence[tuple[float, float | None]]]], unit: str = "") -> dict[str, Any]:
    """Lines over time; a point is (milliseconds since 1970, value)."""
    options = base(legend=len(series) > 1)
    options["useUTC"] = True
    options["xAxis"] = axis("time")
    options["yAxis"] = axis("value", unit or None, scale=True)
    options["series"] = [
        {
            "name": name,
            "type": "line",
            "data": [list(p) for p in points],
            "showSymbol": len(points) < 30,
            "symbolSize": 5,
            "lineStyle": {"width": 1.6},
        }
        for name, points in series
    ]
    if unit:  # stands above the axis, and below the legend
        options["grid"]["top"] = 50 if len(series) > 1 else 34
    return options


def bars(labels: Sequence[str], series: Sequence[tuple[str, Sequence[float | None]]]) -> dict[str, Any]:
    """A bar per label and series."""
    options = base(legend=len(series) > 1)
    options["xAxis"] = axis("category", data=list(labels))
    options["yAxis"] = axis("value")
    options["series"] = [{"name": n, "type": "bar", "data": list(v), "barMaxWidth": 42} for n, v in series]
    return options


def scatter(series: Sequence[tuple[str, Sequence[Sequence[Any]]]], x_name: str, y_name: str) -> dict[str, Any]:
    """Points; each is [x, y] and may have a name as its third."""
    options = base(legend=len(series) > 1)
    options["tooltip"] = {"trigger": "item", "confine": True}
    options["xAxis"] = axis("value", x_name, scale=True, nameLocation="middle", nameGap=24)
    options["yAxis"] = axis("value", y_name, scale=True)
    options["grid"] |= {"bottom": 24, "top": 34}
    options["series"] = [
        {
            "name": n,
            "type": "scatter",
            "symbolSize": 9,
            "data": [list(p) for p in points],
            "itemStyle": {"opacity": 0.8},
        }
        for n, points in series
    ]
    return options


# From calm to loud, readable on both grounds.
_SCALE = ["#2c7da0", "#4dabb9", "#8cc63f", "#f6c026", "#f08c00", "#e03131"]


def map_options(table: TableFacts, field: str | None, now_us: int) -> dict[str, Any]:
    """A scatter of all sensors that have a place. Each point is [x, y, value, name, text, state]."""
    placed = [s for s in table.sensors if s.place is not None]
    heard = [s for s in placed if s.state == "live" and _value(s, field) is not None]
    quiet = [s for s in placed if s not in heard]
    values = [v for s in heard if (v := _value(s, field)) is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    crowded = len(placed) > 150
    options = base()
    options["grid"] = {"left": 12, "right": 12, "top": 12, "bottom": 44, "containLabel": True}
    options["tooltip"] = {"trigger": "item", "confine": True, ":formatter": "p => p.data.text"}
    options["xAxis"] = axis("value", scale=True, splitNumber=4)
    options["yAxis"] = axis("value", scale=True, splitNumber=4)
    options["visualMap"] = {
        "show": bool(values),
        "type": "continuous",
        "seriesIndex": 0,
        "dimension": 2,
        "min": low,
        "max": high if high > low else low + 1,
        "inRange": {"color": _SCALE},
        "orient": "horizontal",
        "left": "center",
        "bottom": 0,
        "itemHeight": 120,
        "itemWidth": 10,
        "text": [f"{number(high)}", f"{field or ''} {number(low)}"],
        "textStyle": {"color": GREY, "fontSize": 11},
        "calculable": False,
    }
    options["series"] = [
        {
            "name": "live",
            "type": "scatter",
            "symbolSize": 10 if crowded else 18,
            "data": [_point(s, field, now_us) for s in heard],
            "label": {
                "show": not crowded,
                "position": "bottom",
                "distance": 4,
                "fontSize": 10,
                "color": GREY,
                ":formatter": "p => p.data.short",
            },
            "labelLayout": {"hideOverlap": True},
        },
        *(
            {
                "name": name,
                "type": "scatter",
                "symbolSize": 9 if crowded else 16,
                "itemStyle": {"color": "transparent", "borderColor": colour, "borderWidth": 2, "borderType": "dashed"},
                "data": [_point(s, field, now_us) for s in quiet if (s.state == "failing") == (name == "failing")],
            }
            for name, colour in (("silent", GREY), ("failing", BAD))
        ),
    ]
    return options


def _point(sensor: SensorFacts, field: str | None, now_us: int) -> dict[str, Any]:
    assert sensor.place is not None
    value = _value(sensor, field)
    label = f" · {sensor.label}" if sensor.label else ""
    said = f"{field} = {number(value)}" if value is not None else "no value"
    return {
        "value": [*sensor.place, value],
        "name": sensor.name,
        "short": number(value),
        # ECharts takes it as HTML.
        "text": escape(f"{sensor.name}{label}: {said}, {sensor.state}, {age(sensor.last_us, now_us)}", quote=False),
    }


def _value(sensor: SensorFacts, field: str | None) -> float | None:
    value = sensor.values.get(field) if field is not None else None
    return float(value) if isinstance(value, int | float) else None
