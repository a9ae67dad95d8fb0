"""Sensors where they stand: colour is the latest value, and those that are silent or fail look it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from penstock.console.formats import age, number
from penstock.console.server_status import SensorFacts, TableFacts
from penstock.console.widgets.charts import BAD, GREY, axis, base

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
        _quiet("silent", [s for s in quiet if s.state != "failing"], GREY, crowded, field, now_us),
        _quiet("failing", [s for s in quiet if s.state == "failing"], BAD, crowded, field, now_us),
    ]
    return options


def _quiet(
    name: str, sensors: Sequence[SensorFacts], colour: str, crowded: bool, field: str | None, now_us: int
) -> dict[str, Any]:
    return {
        "name": name,
        "type": "scatter",
        "symbolSize": 9 if crowded else 16,
        "itemStyle": {"color": "transparent", "borderColor": colour, "borderWidth": 2, "borderType": "dashed"},
        "data": [_point(s, field, now_us) for s in sensors],
    }


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
