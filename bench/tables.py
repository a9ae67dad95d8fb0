"""Tables and plots of comparisons: bench/results/NAME.md and .png."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report import RESULTS


def write_table(name: str, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """With the columns of the first row; a value that is missing or None is a dash."""
    columns = list(rows[0])
    lines = [f"# {title}", "", f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
    lines += [f"| {' | '.join(_text(row.get(c)) for c in columns)} |" for row in rows]
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""By label: x and y."""


def lines_of(table: Sequence[Mapping[str, Any]], label: str, x: str, y: str) -> Lines:
    """One line per value of a column, without the points that were not measured."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for row in table:
        if row.get(y) is not None:
            xs, ys = lines.setdefault(str(row[label]), ([], []))
            xs.append(row[x])
            ys.append(row[y])
    return lines


def plot(name: str, panels: Mapping[str, Lines], x: str, *, log: str = "", ticks: Sequence[float] = ()) -> None:
    """One panel per quantity, side by side; `log` names the axes that are logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), figsize=(6 * len(panels), 4), squeeze=False)
    for panel, (quantity, lines) in zip(axes[0], panels.items(), strict=True):
        for label, (xs, ys) in lines.items():
            panel.plot(xs, ys, marker="o" if len(xs) < 15 else None, markersize=3, label=label)
        panel.set_xlabel(x)
        panel.set_title(quantity, fontsize=10)
        if "x" in log:
            panel.set_xscale("log")
        if "y" in log:
            panel.set_yscale("log")
        if ticks:
            panel.set_xticks(list(ticks))
        if lines:
            panel.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / f"{name}.png", dpi=110)
    pyplot.close(figure)
