"""The measures on few boxes: what they count, not how good the figures are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from apps.hazmat.decision import ALARM, MORE
from apps.hazmat.hypotheses import Hypotheses
from apps.hazmat.matching import CLASSES
from apps.hazmat.measure.__main__ import Figures
from apps.hazmat.measure.latency import Arrivals, percentile
from apps.hazmat.measure.names import COLUMNS, matrix, measure_confusion, right_share, split_run
from apps.hazmat.measure.outcome import follow, look, make_boxes, site_hypotheses, upper_limit
from apps.hazmat.measure.rates import (
    mean_time_s,
    measure_false_alarms,
    measure_threats,
    prediction_errors,
    shortest_fixed_s,
)
from apps.hazmat.reading import radiacode_tools, suro
from bench.report import Report


@pytest.fixture(scope="module")
def hypotheses() -> Hypotheses:
    return site_hypotheses()


def test_the_first_decision_is_that_of_looking_every_second(hypotheses: Hypotheses) -> None:
    bins = make_boxes(suro()[24], 8.0, 3, np.random.default_rng(1))
    found = follow(hypotheses, bins, names=True)
    for box in range(3):
        verdicts = [look(hypotheses, bins[box : box + 1, :now].sum(axis=1), now) for now in range(1, 61)]
        decided = next(now for now, one in enumerate(verdicts, 1) if one.verdict[0] != MORE)
        assert (found.verdict[box], found.second[box]) == (verdicts[decided - 1].verdict[0], decided)
        named = next(
            now for now, one in enumerate(verdicts, 1) if one.finding[0] == "Cs-137" and one.verdict[0] == ALARM
        )
        assert (found.name[box], found.named_second[box]) == ("Cs-137", named)


def test_each_figure_has_its_commit_its_command_and_its_runs() -> None:
    report = Report("hazmat", "figures that are not saved")
    Figures(report).put("false_alarm_share", 0.0000234)
    assert report.values["false_alarm_share"] == 0.00002
    kept = report.runs["false_alarm_share"]
    assert kept["runs"] == [0.00002] and kept["command"].startswith("python -m apps.hazmat.measure") and kept["commit"]


def test_the_upper_limit_is_that_of_the_poisson_distribution() -> None:
    assert upper_limit(0, 1000) == pytest.approx(-math.log(0.05) / 1000)
    mean = upper_limit(2, 1)
    assert math.exp(-mean) * (1 + mean + mean**2 / 2) == pytest.approx(0.05, abs=1e-6)


def test_the_matrix_counts_truth_and_finding() -> None:
    table = matrix(np.array(["Am-241", "none", "none"]), np.array(["Am-241", "none", "Co-60 + Cs-137"]))
    assert table.shape == (len(CLASSES), len(COLUMNS)) and table.sum() == 3
    assert table[CLASSES.index("none"), COLUMNS.index("other")] == 1
    assert right_share(table) == pytest.approx(2 / 3)


def test_times_and_errors_of_few_boxes_are_counted(hypotheses: Hypotheses) -> None:
    dice = np.random.default_rng(2)
    null = measure_false_alarms(hypotheses, 10, dice)
    threats = measure_threats(hypotheses, 8.0, 1, dice)
    assert null.boxes == 10 and null.ever == 0 and null.largest_mean_m < 1
    assert all(one.share(ALARM) == 1 for one in threats.values())
    fixed = shortest_fixed_s(null, threats)
    assert fixed is not None and 1 < mean_time_s(null, threats) < 60
    assert np.all(prediction_errors([part for one in threats.values() for part in one.outcomes]) >= 0)


def test_each_method_has_a_matrix_of_all_boxes(hypotheses: Hypotheses) -> None:
    found = measure_confusion(hypotheses, 5, np.random.default_rng(3))
    assert set(found.early) == set(found.decided) == {"decide", "nearest", "clusters", "tree"}
    assert {table.sum() for table in (*found.early.values(), *found.decided.values())} == {found.boxes} == {50}
    assert found.named_right <= found.named


def test_a_run_is_split_into_halves_without_common_counts() -> None:
    run = radiacode_tools()["bg"]
    one, other = split_run(run, np.random.default_rng(4))
    np.testing.assert_array_equal(one.counts + other.counts, run.counts)
    assert one.live_s == other.live_s == 900


def test_a_burst_that_no_verdict_includes_took_infinitely_long() -> None:
    arrivals = Arrivals()
    sent = [("a", 1, 10.0), ("a", 2, 10.5), ("b", 1, 11.0)]
    # One verdict may include several bursts, the first one that does counts, and a fault has no live seconds.
    arrivals.take([{"box": "a", "live_s": 2.0}, {"box": "b", "live_s": None}], 12.0)
    arrivals.take([{"op": "-", "box": "b", "live_s": 1.0}, {"op": "+", "box": "a", "live_s": 2.0}], 13.0)
    waits = arrivals.waits_ms(sent)
    assert waits == [2000.0, 1500.0, math.inf]
    assert percentile(waits, 50) == 2000.0 and percentile(waits, 99) is None
    assert arrivals.wait(sent[:2], 0.0) and not arrivals.wait(sent, 0.01)
