"""Tables and plots of window joins: bench/results/joins_NAME.md and .png."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench import tables
from bench.tables import Lines

__all__ = ["Lines", "plot", "write_table"]


def write_table(name: str, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    tables.write_table(f"joins_{name}", title, rows)


def plot(name: str, panels: Mapping[str, Lines], x: str, *, log: str = "", ticks: Sequence[float] = ()) -> None:
    tables.plot(f"joins_{name}", panels, x, log=log, ticks=ticks)
