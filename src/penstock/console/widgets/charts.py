"""Charts as ECharts reads them, in colours that hold on light and dark alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui

PALETTE = [
    "#1098ad", "#f08c00", "#7048e8", "#37b24d", "#e64980", "#4263eb",
    "#a9652b", "#0ca678", "#c2255c", "#868e96", "#94d82d", "#ae3ec9",
]  # fmt: skip
GREY = "#8793a1"
GOOD, WARN, BAD = "#37b24d", "#f08c00", "#fa5252"
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
