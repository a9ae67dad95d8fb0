"""What the server learns from the steps of joins, and what the planner makes of it; without Spark and without joins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.operators.join.algorithm_choice import (
    HELD,
    STEPS_BETWEEN,
    STEPS_CLEARLY,
    TRY_FIRST,
    GroupChoice,
    JoinChoices,
    PlannedChoices,
    StepReport,
)


def run(choice: GroupChoice, steps: int, costs: dict[str, float], took: dict[str, float], first: int = 0) -> list[str]:
    """Steps as the planner would run them: what was chosen, each attempt once. The costs are expected, `took` is the truth."""
    ran, seen = [], 0 if choice.attempt is None else choice.attempt[1]
    for cycle in range(first, first + steps):
        name = choice.runs or "sorted_runs"
        if choice.attempt is not None and choice.attempt[1] != seen:
            name, seen = choice.attempt
        choice.note(StepReport(cycle, name, took[name], costs))
        ran.append(name)
    return ran


def test_what_costs_less_for_some_steps_is_tried_twice_and_takes_over_and_says_why() -> None:
    choice = GroupChoice()
    ran = run(choice, 18, {"sorted_runs": 10.0, "hash": 5.0}, {"sorted_runs": 10.0, "hash": 5.0})
    by_itself, between = ["sorted_runs"] * STEPS_CLEARLY, ["sorted_runs"] * (STEPS_BETWEEN - 1)
    assert ran[:17] == [*by_itself, "hash", *between, "hash", *between, "hash"]
    assert choice.last_switch is not None
    assert (choice.last_switch.cycle, choice.last_switch.before) == (15, "sorted_runs")
    assert choice.last_switch.reason == "for 8 steps it was the cheaper: 5.00 ms, sorted_runs 10.00 ms"


def test_what_is_hardly_cheaper_does_not_take_over() -> None:
    choice = GroupChoice()
    run(choice, 100, {"sorted_runs": 10.0, "hash": 8.5}, {"sorted_runs": 10.0, "hash": 8.5})
    assert choice.runs == "sorted_runs" and choice.last_switch is None


def test_expectations_that_are_wrong_are_corrected_by_what_steps_took() -> None:
    choice = GroupChoice()
    run(choice, 80, {"sorted_runs": 10.0, "hash": 5.0}, {"sorted_runs": 10.0, "hash": 40.0})
    assert choice.last_switch is None
    assert choice.learned["hash"].factor == 5.0


def test_a_choice_is_kept_for_a_while() -> None:
    choice = GroupChoice()
    truth = {"sorted_runs": 10.0, "hash": 5.0}
    run(choice, 16, truth, truth)
    assert choice.runs == "hash"
    turned = {"sorted_runs": 5.0, "hash": 10.0}
    assert run(choice, HELD + 1, turned, turned, 16)[:HELD].count("sorted_runs") <= 1  # an attempt
    assert choice.runs == "sorted_runs"


def test_one_slow_step_changes_nothing() -> None:
    choice, costs = GroupChoice(), {"sorted_runs": 10.0, "hash": 12.0}
    run(choice, 10, costs, costs)
    choice.note(StepReport(10, "sorted_runs", 400.0, costs))
    run(choice, 5, costs, costs)
    assert choice.last_switch is None


def test_the_second_best_is_tried_now_and_then_unless_it_is_far_worse() -> None:
    choice, costs = GroupChoice(), {"sorted_runs": 10.0, "hash": 12.0, "nested_loop": 11.0, "gca": 900.0}
    took = {"sorted_runs": 10.0, "hash": 12.0, "nested_loop": 60.0, "gca": 900.0}
    ran = run(choice, 450, costs, took)
    assert [name for name in ran if name != "sorted_runs"] == ["nested_loop", "hash", "hash", "hash", "hash"]
    assert ran.index("nested_loop") == TRY_FIRST[0]
    for dear in ({"sorted_runs": 1.0, "hash": 4.0}, {"sorted_runs": 40.0, "hash": 60.0}):
        choice = GroupChoice()
        assert set(run(choice, 450, dear, dear)) == {"sorted_runs"}


def test_a_step_that_waited_for_something_else_teaches_nothing() -> None:
    choice, costs = GroupChoice(), {"sorted_runs": 10.0}
    choice.note(StepReport(1, "sorted_runs", 900.0, costs, measured=False))
    assert not choice.learned


def test_a_join_whose_steps_are_never_measured_tries_nothing() -> None:
    choice = GroupChoice()
    for cycle in range(250):
        choice.note(StepReport(cycle, "sorted_runs", 9.0, {"sorted_runs": 9.0, "hash": 1.0}, measured=False))
    assert choice.attempt is None and choice.runs == "sorted_runs"


def test_what_cannot_run_any_more_is_left_at_once() -> None:
    choice = GroupChoice()
    truth = {"sorted_runs": 10.0, "hash": 5.0}
    run(choice, 18, truth, truth)
    choice.note(StepReport(99, "sorted_runs", 10.0, {"sorted_runs": 10.0}))
    assert choice.runs == "sorted_runs"
    assert choice.last_switch is not None and choice.last_switch.reason == "hash cannot run any more"


def said(algorithm: str, ms: float, **costs: float) -> dict[str, Any]:
    return {"group": 7, "algorithm": algorithm, "ms": ms, "costs": costs, "measured": True}


def test_parts_run_side_by_side_and_members_apart_one_after_the_other() -> None:
    choices = JoinChoices()
    choices.add(1, 0, said("sorted_runs", 4.0, sorted_runs=2.0, hash=9.0))
    choices.add(1, 0, said("sorted_runs", 4.0, sorted_runs=2.0, hash=9.0))
    choices.add(1, 1, said("sorted_runs", 5.0, sorted_runs=3.0, hash=10.0))
    assert choices.settle() and not choices.settle()
    known = choices.groups[7].learned["sorted_runs"]
    assert (known.observed_ms, known.predicted_ms, known.factor) == (8.0, 4.0, 2.0)
    assert choices.groups[7].expected_ms == {"sorted_runs": 8.0, "hash": 36.0}  # as wrong as what ran


def test_the_next_cycle_ends_the_one_before() -> None:
    choices = JoinChoices()
    choices.add(1, 0, said("sorted_runs", 4.0, sorted_runs=2.0))
    choices.add(2, 0, said("sorted_runs", 4.0, sorted_runs=2.0))
    assert choices.groups[7].steps == 1
    choices.settle()
    assert choices.groups[7].steps == 2
    choices.forget([8])
    assert not choices.groups


def test_the_planner_runs_what_was_chosen_and_each_attempt_once(tmp_path: Path) -> None:
    choices, planned = JoinChoices(), PlannedChoices(tmp_path / "costs.json")
    assert planned((7, 8)) == {}  # no file yet
    for cycle in range(TRY_FIRST[0]):
        choices.add(cycle, 0, said("sorted_runs", 2.0, sorted_runs=2.0, hash=3.0))
    choices.settle()
    (tmp_path / "costs.json").write_bytes(choices.to_json())
    assert choices.groups[7].attempt is not None
    assert [planned((7, 8)) for _ in range(3)] == [{7: "hash"}, {7: "sorted_runs"}, {7: "sorted_runs"}]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"7": 3}', '{"7": [1, 2, 3]}', '{"7": ["hash", []]}'])
def test_a_file_that_makes_no_sense_means_no_choice(text: str, tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text(text)
    assert PlannedChoices(tmp_path / "costs.json")((7,)) == {}
