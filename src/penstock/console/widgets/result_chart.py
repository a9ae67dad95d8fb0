"""An answer as a chart: which column is time, which are numbers, which tells the lines apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from penstock.console.formats import cell
from penstock.console.widgets.charts import bars, scatter, timeline

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


def numbers_of(table: pa.Table) -> list[str]:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return [f.name for f in table.schema if any(is_kind(f.type) for is_kind in kinds)]


def times_of(table: pa.Table) -> list[str]:
    return [f.name for f in table.schema if pa.types.is_timestamp(f.type)]


def labels_of(table: pa.Table) -> list[str]:
    return [f.name for f in table.schema if pa.types.is_string(f.type) or pa.types.is_integer(f.type)]


def guess(table: pa.Table) -> Axes | None:
    """The chart that people most likely want; None where there is no number."""
    numbers, times = numbers_of(table), times_of(table)
    measures = [n for n in numbers if not _is_name(n)] or numbers
    if not measures:
        return None
    if times:
        time = "ts" if "ts" in times else times[0]
        return Axes("time", time, (measures[-1],), _splitting(table, {time, measures[-1]}))
    texts = [f.name for f in table.schema if pa.types.is_string(f.type)]
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
    labels = (
        [str(cell(v)) for v in rows.column(axes.x).to_pylist()]
        if axes.x
        else [str(i + 1) for i in range(rows.num_rows)]
    )
    return bars(labels, [(name, _floats(rows.column(name))) for name in axes.y])


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
    for name in labels_of(table):
        if name in taken or not table.num_rows:
            continue
        distinct = pc.count_distinct(table.column(name)).as_py()
        if 1 < distinct <= LINES_MAX * 5 and distinct < table.num_rows:
            return name
    return None


def _is_name(column: str) -> bool:
    """Numbers that are names: of sensors mostly."""
    return (
        column.lower() == "id" or column.lower().endswith(("_id", " id")) or column.lower() in ("x", "y", "lat", "lon")
    )


def _floats(column: pa.ChunkedArray) -> list[float | None]:
    return [None if v is None or v != v else float(v) for v in column.to_pylist()]
