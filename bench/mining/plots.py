"""Plots of the parts: bench/results/NAME.png."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bench.report import RESULTS


@contextmanager
def saved(name: str, size: tuple[float, float], rows: int = 1, columns: int = 1) -> Iterator[Sequence[Any]]:
    """Panels to draw into, which become a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False)
    yield axes.ravel()
    figure.tight_layout()
    figure.savefig(RESULTS / f"{name}.png", dpi=90)
    pyplot.close(figure)


def bars(name: str, panels: Mapping[str, Mapping[str, Mapping[str, float | None]]], bar: Mapping[str, float]) -> None:
    """One panel per quantity: by case and by series of bars; a dashed line where `bar` names one."""
    with saved(name, (8 * len(panels), 4), 1, len(panels)) as axes:
        for axis, (quantity, by_label) in zip(axes, panels.items(), strict=True):
            cases = list(dict.fromkeys(case for values in by_label.values() for case in values))
            width = 0.8 / len(by_label)
            for number, (label, values) in enumerate(by_label.items()):
                places = [cases.index(case) + (number + 0.5) * width - 0.4 for case in values]
                axis.bar(places, [value or 0.0 for value in values.values()], width, label=label)
            if quantity in bar:
                axis.axhline(bar[quantity], color="black", linestyle="--", linewidth=1, label="bar")
            axis.set_xticks(range(len(cases)), cases, rotation=30, ha="right", fontsize=8)
            axis.set_title(quantity, fontsize=10)
            axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
