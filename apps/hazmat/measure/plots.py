"""Pictures of the measures: confusion matrices, times, the course of one box, and what a shield leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from apps.hazmat.boxes import DETECTORS, Content, resample, strength_for, thin
from apps.hazmat.decision import RULES, decide
from apps.hazmat.hypotheses import Hypotheses
from apps.hazmat.matching import CLASSES
from apps.hazmat.measure.names import COLUMNS, Confusion
from apps.hazmat.measure.outcome import SECONDS
from apps.hazmat.measure.rates import Shielded, Threats
from apps.hazmat.reading import suro
from apps.hazmat.spectrum import Array
from apps.hazmat.split import TEST_BACKGROUND, TESTS


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, path: Path) -> None:
    if figure.get_layout_engine() is None:
        figure.tight_layout()
    figure.savefig(path, dpi=110)
    _pyplot().close(figure)


def plot_confusion(found: Confusion, path: Path) -> None:
    """One matrix per method, at the decision; shares of each row in percent."""
    figure, axes = _pyplot().subplots(2, 2, figsize=(13, 11))
    for axis, (name, table) in zip(axes.flat, found.decided.items(), strict=True):
        shares = 100 * table / table.sum(axis=1, keepdims=True)
        axis.imshow(shares, cmap="Blues", vmin=0, vmax=100, aspect="auto")
        for row, column in zip(*np.nonzero(shares), strict=True):
            colour = "white" if shares[row, column] > 60 else "black"
            text = f"{shares[row, column]:.0f}" if shares[row, column] >= 1 else "<1"
            axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=9)
        axis.set_xticks(range(len(COLUMNS)), COLUMNS, rotation=60, ha="right")
        axis.set_yticks(range(len(CLASSES)), CLASSES)
        axis.set_title(f"{name}: finding at the time of decision, % of each row")
        axis.set_xlabel("finding")
        axis.set_ylabel("truth")
    _save(figure, path)


def plot_times(weak: dict[str, Threats], strong: dict[str, Threats], fixed_s: float | None, path: Path) -> None:
    """Seconds to the alarm per material at two strengths, against the fixed counting time."""
    figure, axis = _pyplot().subplots(figsize=(9, 4.5))
    places = np.arange(len(weak))
    for shift, (label, threats) in zip(
        (-0.2, 0.2), (("4 net counts/s", weak), ("8 net counts/s", strong)), strict=True
    ):
        means = [one.seconds.mean() for one in threats.values()]
        bars = axis.bar(places + shift, means, 0.38, label=label)
        axis.bar_label(bars, fmt="%.1f", fontsize=8)
    if fixed_s is not None:
        axis.axhline(fixed_s, color="black", linestyle="--", label=f"fixed time that is as good at 4: {fixed_s:g} s")
    axis.set_xticks(places, list(weak))
    axis.set_ylabel("mean seconds to the decision")
    axis.set_title("Time to decision, four detectors over 6.4 background counts/s each")
    axis.legend()
    _save(figure, path)


def plot_course(hypotheses: Hypotheses, dice: np.random.Generator, path: Path) -> None:
    """ln M and the safe ratio of single boxes over time, against both limits."""
    office = suro()[TEST_BACKGROUND]
    boxes: dict[str, Array] = {"background": resample(Content(office), 1, SECONDS, dice)}
    for material in ("Am-241", "Cs-137", "Co-60", "Sr-90"):
        run = suro()[TESTS[material][0]]
        boxes[material] = thin(Content(office, run, strength_for(4.0, run, office)), 1, SECONDS, dice)
    figure, (left, right) = _pyplot().subplots(1, 2, figsize=(12, 4.5))
    seconds: Array = np.arange(1.0, SECONDS + 1.0)
    for name, bins in boxes.items():
        found = decide(hypotheses, bins[0].cumsum(axis=0), seconds * DETECTORS, float(DETECTORS))
        left.plot(seconds, found.log_m, label=name)
        right.plot(seconds, found.log_safe, label=name)
    left.axhline(-np.log(RULES.alpha), color="black", linestyle="--")
    left.set_title(f"ln M: alarm above the dashed line (alpha {RULES.alpha:g})")
    left.set_ylim(-15, 40)
    right.axhline(-np.log(RULES.beta), color="black", linestyle="--")
    right.set_title(f"ln of the safe ratio: safe above the line (beta {RULES.beta:g})")
    right.set_ylim(-40, 15)
    for axis in (left, right):
        axis.set_xlabel("seconds")
        axis.legend(loc="lower right")
    _save(figure, path)


def plot_shielding(found: list[Shielded], path: Path) -> None:
    """Shares of alarms and of safe boxes behind each shield, with the counts that are left."""
    shields = list(dict.fromkeys(one.shield for one in found))
    figure, axes = _pyplot().subplots(1, len(shields), figsize=(13, 4.8), sharey=True, layout="constrained")
    for axis, shield in zip(axes, shields, strict=True):
        rows = [one for one in found if one.shield == shield]
        places = np.arange(len(rows))
        alarm, safe = np.array([one.alarm for one in rows]), np.array([one.safe for one in rows])
        axis.bar(places, alarm, label="alarm")
        axis.bar(places, 1 - alarm - safe, bottom=alarm, label="inspect by hand", color="lightgrey", hatch="//")
        axis.bar(places, safe, bottom=1 - safe, label="safe", color="tab:green")
        labels = [f"{one.material}\n{max(one.left_per_s, 0):.1f}/s left" for one in rows]
        axis.set_xticks(places, labels, fontsize=8)
        axis.set_title(f"{shield}, 16 net counts/s before it")
    axes[0].set_ylabel("share of boxes")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    _save(figure, path)
