"""Answers as multisets of tuples: integers exact, floats to 1e-9."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

NAN = "NaN"  # stands for the float that does not equal itself
Answer = Counter[tuple[Any, ...]]


def canonical(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_plain(item) for item in row)


def _plain(item: Any) -> Any:
    if isinstance(item, Decimal):
        item = float(item)
    if isinstance(item, float):
        return NAN if math.isnan(item) else item + 0.0  # -0.0 becomes 0.0
    return item


def rows_of(table: pa.Table, columns: int | None = None) -> Answer:
    """An answer of the database; timestamps as microseconds. `columns` keeps the first few."""
    lists = []
    for column in table.columns[:columns]:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
        lists.append(column.to_pylist())
    if not lists:
        return Counter({(): table.num_rows} if table.num_rows else {})
    return Counter(canonical(row) for row in zip(*lists, strict=True))


def difference(expected: Answer, found: Answer, show: int = 5) -> str | None:
    """None where the answers are equal, else what is missing and what is too much."""
    missing, extra = expected - found, found - expected
    for row in list(missing.elements()):
        near = next((other for other in extra if _near(row, other)), None)
        if near is not None:
            missing -= Counter([row])
            extra -= Counter([near])
    if not missing and not extra:
        return None
    lines = [f"expected {expected.total()} rows, found {found.total()}"]
    for title, rows in (("missing", missing), ("unexpected", extra)):
        if rows:
            lines.append(f"{title} ({rows.total()}): {_first(rows.elements(), show)}")
    return "\n".join(lines)


def _first(rows: Iterable[tuple[Any, ...]], show: int) -> str:
    return ", ".join(str(row) for row, _ in zip(sorted(rows, key=str), range(show), strict=False))


def _near(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
        if isinstance(a, float) and isinstance(b, float)
        else a == b and (a is None) == (b is None)
        for a, b in zip(left, right, strict=True)
    )
