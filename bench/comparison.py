"""Two sides that were measured in turns: the medians of each measure, their ratio, and whether the second side is worse."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.tables import write_table

FILE_WIDTH = 160
"""Columns of the table where its output is not a terminal."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a benchmark, by its name in the results; times and sizes are better where they are lower."""

    name: str
    higher_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure on two sides, run by run in the order of the pairs."""

    measure: Measure
    first: Sequence[float]
    second: Sequence[float]

    @property
    def measured(self) -> bool:
        """Every run gave a figure. None is 0 or less: memory per query can be, where there are few queries."""
        return all(math.isfinite(figure) and figure > 0 for figure in (*self.first, *self.second))

    @property
    def ratio(self) -> float:
        """The median of the second side divided by that of the first."""
        return statistics.median(self.second) / statistics.median(self.first) if self.measured else math.nan

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest ratio of a pair: how far the machine lets two runs differ."""
        ratios = [b / a for a, b in zip(self.first, self.second, strict=True)] if self.measured else [math.nan]
        return min(ratios), max(ratios)

    def is_worse(self, tolerance: float) -> bool:
        """The second side takes more than `tolerance` longer, or gives more than `tolerance` less."""
        ratio = self.ratio
        return ratio < 1 - tolerance if self.measure.higher_is_better else ratio > 1 + tolerance

    def verdict(self, tolerance: float) -> str:
        if not self.measured:
            return "NOT MEASURED"
        return f"WORSE than {tolerance * 100:g} %" if self.is_worse(tolerance) else "not worse"

    def line(self, sides: tuple[str, str], tolerance: float) -> dict[str, Any]:
        low, high = self.spread
        return {
            "measure": self.measure.name,
            "better": "higher" if self.measure.higher_is_better else "lower",
            sides[0]: statistics.median(self.first),
            sides[1]: statistics.median(self.second),
            f"{sides[1]} / {sides[0]}": f"{self.ratio:.3f}",
            "of pairs": f"{low:.3f} to {high:.3f}",
            "verdict": self.verdict(tolerance),
        }


def turns(sides: tuple[str, str], pairs: int) -> Iterator[tuple[int, str]]:
    """Pairs with their sides; the side that goes first alternates, so that a machine that slows down favours neither."""
    for pair in range(pairs):
        for side in sides if pair % 2 == 0 else reversed(sides):
            yield pair, side


def write_lines(name: str, title: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """To bench/results/NAME.md and to standard output."""
    write_table(name, title, lines)
    table = Table(title=title)
    for column in lines[0]:
        words = column in ("measure", "better", "verdict")
        table.add_column(column, justify="left" if words else "right", no_wrap=True)
    for line in lines:
        shown = [f"{value:,.3f}" if isinstance(value, float) else str(value) for value in line.values()]
        table.add_row(*shown, style="" if line["verdict"] == "not worse" else "bold red")
    Console(width=None if sys.stdout.isatty() else FILE_WIDTH).print(table)
