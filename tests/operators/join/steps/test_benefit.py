"""Joins that make far more together than they keep run apart, if that is quicker; otherwise they stay together."""

from __future__ import annotations

from penstock.operators.join.kernels.refinement import Member
from penstock.operators.join.steps.benefit import ANEW, STEP_IS_WORTH, TRIAL, Benefit, benefit_of
from penstock.operators.join.steps.join_sharing import SharedJoin

MUCH = 10 * STEP_IS_WORTH


def _doubted(together_s: float) -> Benefit:
    benefit = Benefit(members=2)
    for _ in range(2):
        benefit.ran_together(together_s, 1000, combinations=MUCH, results=10)
    return benefit


def test_a_group_that_keeps_what_it_makes_is_never_split() -> None:
    benefit = Benefit(members=2)
    for _ in range(2 * ANEW):
        benefit.ran_together(1.0, 1000, combinations=MUCH, results=MUCH)
        assert benefit.together


def test_a_group_that_keeps_little_is_tried_apart_and_stays_so_where_that_is_quicker() -> None:
    benefit = _doubted(1.0)
    assert not benefit.together
    for _ in range(TRIAL + ANEW):
        assert not benefit.together
        benefit.ran_apart(0.1, 1000)
    assert benefit.together
    for _ in range(2):
        benefit.ran_together(1.0, 1000, combinations=MUCH, results=10)
    assert not benefit.together  # it was looked at anew


def test_a_group_that_is_no_quicker_apart_goes_on_together() -> None:
    benefit = _doubted(1.0)
    for _ in range(TRIAL):
        assert not benefit.together
        benefit.ran_apart(0.9, 1000)
    for _ in range(10):
        assert benefit.together
        benefit.ran_together(1.0, 1000, combinations=MUCH, results=10)


def test_a_trial_that_would_read_back_too_much_is_not_made() -> None:
    benefit = Benefit(members=100)
    for _ in range(10):
        benefit.ran_together(0.01, 1000, combinations=100 * MUCH, results=10, buffered=10_000_000)
        assert benefit.together


def test_a_group_that_was_quicker_apart_stays_so_when_a_query_comes_or_goes() -> None:
    before = _group(1, 2, 3)
    benefit = benefit_of(before)
    for _ in range(2):
        benefit.ran_together(1.0, 1000, combinations=MUCH, results=10)
    for _ in range(TRIAL):
        benefit.ran_apart(0.1, 1000)
    larger, smaller, mostly_new = _group(1, 2, 3, 4), _group(1, 2), _group(3, 5, 6)
    assert not benefit_of(larger).together
    assert not benefit_of(smaller).together
    assert benefit_of(mostly_new).together
    assert benefit_of(_group(7, 8)).together


def _group(*numbers: int) -> SharedJoin:
    members = tuple(Member(number, ((0, 0), (0, 0)), ()) for number in numbers)
    return SharedJoin(None, (), members, dict.fromkeys(numbers))  # type: ignore[arg-type]
