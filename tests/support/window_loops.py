"""Window functions by plain loops over rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

from penstock.expr.expression import Column, Expr
from penstock.sql.plan.window_calls import WindowCall

Row = dict[str, Any]


def looked_up(call: WindowCall, rows: Sequence[Row]) -> list[Any]:
    """The value of a window function for each row. Rows that are alike in the order come as they stand."""
    partitions: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        partitions.setdefault(tuple(same_key(column(row, e)) for e in call.partition), []).append(place)
    found: list[Any] = [None] * len(rows)
    for places in partitions.values():
        places.sort(key=cmp_to_key(lambda a, b: compared(call, rows[a], rows[b])))
        for at, place in enumerate(places):
            found[place] = value(call, rows, places, at)
    return found


def value(call: WindowCall, rows: Sequence[Row], places: list[int], at: int) -> Any:
    """What a function says of the row at a place of its ordered partition."""
    mine, size = rows[places[at]], len(places)
    below = sum(1 for p in places if compared(call, rows[p], mine) < 0)
    match call.function:
        case "row_number":
            return at + 1
        case "rank":
            return below + 1
        case "dense_rank":
            firsts = [i for i in range(at + 1) if i == 0 or compared(call, rows[places[i - 1]], rows[places[i]])]
            return len(firsts)
        case "percent_rank":
            return below / (size - 1) if size > 1 else 0.0
        case "cume_dist":
            return sum(1 for p in places if compared(call, rows[p], mine) <= 0) / size
        case "ntile":
            buckets = [size // call.count + (b < size % call.count) for b in range(call.count)]
            return next(b + 1 for b in range(call.count) if at < sum(buckets[: b + 1]))
    other = at - call.count if call.function == "lag" else at + call.count
    if 0 <= other < size:
        return column(rows[places[other]], call.arguments[0])
    return column(mine, call.arguments[1]) if len(call.arguments) > 1 else None


def compared(call: WindowCall, a: Row, b: Row) -> int:
    """Below 0: a comes first; 0: they are alike."""
    for key in call.order:
        x, y = column(a, key.expr), column(b, key.expr)
        if (x is None) != (y is None):
            return -1 if (x is None) == key.nulls_first else 1
        if x is None or sortable(x) == sortable(y):
            continue
        return -1 if (sortable(x) < sortable(y)) != key.descending else 1
    return 0


def sortable(value: Any) -> tuple[bool, Any]:
    """NaN is above every number."""
    nan = isinstance(value, float) and math.isnan(value)
    return nan, 0 if nan else value


def same_key(value: Any) -> str:
    return repr(value + 0.0 if isinstance(value, float) else value)


def column(row: Row, expr: Expr) -> Any:
    assert isinstance(expr, Column)
    return row[expr.name]
