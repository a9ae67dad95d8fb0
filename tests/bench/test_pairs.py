"""Pairs of two commits: what is left to do, and which figures of earlier runs count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.comparison import Measure
from bench.pairs import PARTS, comparisons, earlier, forget, remaining_s


def test_every_measure_belongs_to_one_part() -> None:
    names = [measure.name for part in PARTS.values() for measure in part.measures]
    assert len(names) == len(set(names))


def test_rates_are_better_where_they_are_higher_and_everything_else_where_it_is_lower() -> None:
    for part in PARTS.values():
        for measure in part.measures:
            assert measure.higher_is_better == ("per_s" in measure.name), measure


def test_three_pairs_of_everything_take_an_hour_and_each_part_four_minutes_a_pair() -> None:
    assert remaining_s(list(PARTS), 0, pairs=3, seconds=15) <= 3_600
    assert all(2 * part.run_s(15) <= 240 for part in PARTS.values())


def test_what_remains_is_what_was_not_run_yet() -> None:
    one = PARTS["joins"].run_s(15)
    assert remaining_s(["joins", "start"], 3, pairs=2, seconds=15) == one + 4 * PARTS["start"].run_s(15)
    assert remaining_s(["joins"], 4, pairs=2, seconds=15) == 0


def test_a_figure_of_an_earlier_run_is_taken_away_before_the_next_and_others_stay(tmp_path: Path) -> None:
    results = tmp_path / "queries.json"
    forget(results, [Measure("kb_per_query")])
    assert not results.exists()
    runs = {"kb_per_query": {"runs": [11.0, 12.0]}, "register_1000_s": {"runs": [2.0]}}
    results.write_text(json.dumps({"kb_per_query": 11.5, "register_1000_s": 2.0, "runs": runs}))
    forget(results, [Measure("kb_per_query")])
    left = {"register_1000_s": 2.0, "runs": {"register_1000_s": {"runs": [2.0]}}}
    assert json.loads(results.read_text()) == left


def test_parts_measured_before_stay_only_for_the_same_commits_and_lengths() -> None:
    figures = {"before kb_per_query": [10.0], "after kb_per_query": [11.0], "ratio kb_per_query": 1.1}
    results = {**figures, "title": "3 pairs against old", "commit": "new", "seconds": 12.0, "rows": 0}
    assert earlier(results, "3 pairs against old", "new") == figures
    assert earlier(results, "3 pairs against old", "newer") == earlier(results, "3 pairs against older", "new") == {}
    assert earlier({}, "3 pairs against old", "new") == {}
    (found,) = comparisons(figures)
    assert found.measure.name == "kb_per_query" and found.ratio == pytest.approx(1.1)
