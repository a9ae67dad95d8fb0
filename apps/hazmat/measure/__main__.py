"""`make hazmat-measure`: every measure with fixed seeds, in two processes; about ten minutes on two quiet cores.

Results: bench/results/hazmat.json, .md and hazmat_{confusion,times,course,shielding}.png. `--boxes 0.05` makes everything smaller.
"""

from __future__ import annotations

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from apps.hazmat.decision import ALARM, INSPECT, NATURAL_CARGO, SAFE
from apps.hazmat.matching import CLASSES
from apps.hazmat.measure.names import COLUMNS, Confusion, right_share
from apps.hazmat.measure.outcome import site_hypotheses, upper_limit
from apps.hazmat.measure.parts import SEED, parts, run_part
from apps.hazmat.measure.plots import plot_confusion, plot_course, plot_shielding, plot_times
from apps.hazmat.measure.rates import FalseAlarms, mean_time_s, prediction_errors, shortest_fixed_s
from bench.report import RESULTS, Report, command_of, commit_now


def add_up(pieces: list[FalseAlarms]) -> FalseAlarms:
    """The measures of all pieces as one."""
    boxes = sum(piece.boxes for piece in pieces)
    return FalseAlarms(
        boxes=boxes,
        ever=sum(piece.ever for piece in pieces),
        inspected=sum(piece.inspected for piece in pieces),
        mean_s=sum(piece.mean_s * piece.boxes for piece in pieces) / boxes,
        log_m=np.concatenate([piece.log_m for piece in pieces]),
        largest_mean_m=float(np.mean([piece.largest_mean_m for piece in pieces])),
    )


class Figures:
    """Puts figures into the report, with their commit and command, and five digits: shares of one in a thousand matter here."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._origin: dict[str, Any] = {"commit": commit_now(), "command": command_of("apps.hazmat.measure")}

    def put(self, name: str, value: float | None) -> None:
        """Of one run: seeds are fixed, so another one would give the same."""
        self._report.put_runs(name, [value], digits=5, **self._origin)


def put_rates(figures: Figures, found: dict[str, Any], null: FalseAlarms) -> float | None:
    """False alarms, missed threats and times; the fixed time that is as good."""
    weak, strong = found["weak"], found["strong"]
    figures.put("false_alarm_share", null.ever / null.boxes)
    figures.put("false_alarm_upper_95", upper_limit(null.ever, null.boxes))
    figures.put("false_alarm_boxes", null.boxes)
    figures.put("background_inspected_share", null.inspected / null.boxes)
    figures.put("mean_m_largest", null.largest_mean_m)
    for place, outcomes in found["elsewhere"].items():
        figures.put(f"elsewhere_alarm_share {place}", outcomes.share(ALARM))
        figures.put(f"elsewhere_inspect_share {place}", outcomes.share(INSPECT))
    boxes = sum(len(one.seconds) for threats in (weak, strong) for one in threats.values())
    safe = sum(one.share(SAFE) * len(one.seconds) for threats in (weak, strong) for one in threats.values())
    figures.put("missed_share", safe / boxes)
    figures.put("missed_boxes", boxes)
    worst = max(one.share(SAFE) for threats in (weak, strong) for one in threats.values())
    figures.put("missed_share_worst_material", worst)
    fixed, mean = shortest_fixed_s(null, weak), mean_time_s(null, weak)
    figures.put("mean_time_to_decision_s", mean)
    figures.put("background_time_to_safe_s", null.mean_s)
    figures.put("fixed_time_s", fixed)
    figures.put("mean_time_ratio_fixed", None if fixed is None else mean / fixed)
    for label, threats in (("4", weak), ("8", strong)):
        for material, one in threats.items():
            figures.put(f"time_to_alarm_s {material} at {label}", one.seconds.mean())
            named = np.concatenate([part.named_second for part in one.outcomes])
            figures.put(f"time_to_name_s {material} at {label}", named[named > 0].mean() if np.any(named) else None)
    everything = [part for threats in (weak, strong) for one in threats.values() for part in one.outcomes]
    figures.put("prediction_median_error", float(np.median(prediction_errors(everything))))
    empty = [found["elsewhere"][place] for place in ("lawn", "another room", "gain drift")]
    figures.put("prediction_median_error_safe", float(np.median(prediction_errors(empty))))
    return fixed


def put_names(figures: Figures, found: dict[str, Any]) -> None:
    """Confusion, other detectors, what the library lacks, and mixtures."""
    confusion: Confusion = found["confusion"]
    figures.put("named_right_share", confusion.named_right / max(confusion.named, 1))
    figures.put("named_boxes", confusion.named)
    figures.put("wrong_threat_share", confusion.wrong_threats / confusion.boxes)
    for label, tables in (("10_s", confusion.early), ("decision", confusion.decided)):
        for method, table in tables.items():
            figures.put(f"right_share_{method}_at_{label}", right_share(table))
    others = found["other detectors"]
    named = sum(one.named for one in others.values())
    figures.put("other_detectors_right_share", sum(one.right for one in others.values()) / max(named, 1))
    figures.put("other_detectors_named_share", named / sum(one.boxes for one in others.values()))
    figures.put("other_detectors_safe", sum(one.safe for one in others.values()))
    for name, one in others.items():
        figures.put(f"other_detectors_right_share {name}", one.right / max(one.named, 1))
    thorium = found["thorium elsewhere"]
    figures.put("thorium_elsewhere_alarm_share", thorium.share(ALARM))
    figures.put("thorium_elsewhere_natural_share", float(np.mean(thorium.last_finding == NATURAL_CARGO)))
    left_out = found["left out"]
    boxes = sum(one.boxes for one in left_out.values())
    figures.put("left_out_safe_share", sum(one.safe for one in left_out.values()) / boxes)
    figures.put("left_out_wrong_name_share", sum(one.named for one in left_out.values()) / boxes)
    for material, one in left_out.items():
        figures.put(f"left_out_wrong_name_share {material}", one.named / one.boxes)
        figures.put(f"left_out_alarm_share {material}", one.outcomes.share(ALARM))
    mixtures = found["mixtures"]
    for truth in dict.fromkeys(one.truth for one in mixtures):
        same = [one for one in mixtures if one.truth == truth]
        both = sum(one.boxes for one in same)
        figures.put(f"mixture_both_named_share {truth}", sum(one.first for one in same) / both)
        figures.put(f"mixture_both_named_after_60_s_share {truth}", sum(one.last for one in same) / both)
        figures.put(f"mixture_safe_share {truth}", sum(one.safe for one in same) / both)


def write_confusion(confusion: Confusion) -> None:
    """The matrices as a table that can be read without a picture."""
    lines = []
    for label, tables in (("after 10 s", confusion.early), ("at the decision", confusion.decided)):
        for method, table in tables.items():
            lines += [
                f"## {method}, {label}",
                "",
                f"| truth | {' | '.join(COLUMNS)} |",
                "| --- |" + " --- |" * len(COLUMNS),
            ]
            lines += [
                f"| {name} | {' | '.join(f'{n:.0f}' for n in row)} |" for name, row in zip(CLASSES, table, strict=True)
            ]
            lines.append("")
    (RESULTS / "hazmat_confusion.md").write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boxes", type=float, default=1.0, help="this share of all boxes")
    scale = parser.parse_args().boxes
    report = Report("hazmat", "decisions about boxes from real gamma spectra", keep=True)
    found: dict[str, Any] = {}
    all_parts = parts(scale)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for part, answer in zip(all_parts, pool.map(run_part, all_parts), strict=True):
            report.say(f"{part.name}: done")
            found[part.name] = answer
    null = add_up([answer for name, answer in found.items() if name.startswith("false alarms")])
    figures = Figures(report)
    fixed = put_rates(figures, found, null)
    put_names(figures, found)
    for one in found["shielding"]:
        figures.put(f"shielding_left_per_s {one.shield} {one.material}", one.left_per_s)
        figures.put(f"shielding_alarm_share {one.shield} {one.material}", one.alarm)
        figures.put(f"shielding_safe_share {one.shield} {one.material}", one.safe)
    write_confusion(found["confusion"])
    plot_confusion(found["confusion"], RESULTS / "hazmat_confusion.png")
    plot_times(found["weak"], found["strong"], fixed, RESULTS / "hazmat_times.png")
    plot_course(site_hypotheses(), np.random.default_rng(SEED), RESULTS / "hazmat_course.png")
    plot_shielding(found["shielding"], RESULTS / "hazmat_shielding.png")
    report.show()


if __name__ == "__main__":
    main()
