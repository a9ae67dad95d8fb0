"""Slices of a join's results that are emptied or given up while somebody makes or reads them: never a wrong answer."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.operators.aggregate.over_joins import answer as module
from penstock.operators.aggregate.over_joins.answer import JoinAggregateAt
from penstock.operators.join.projection import ResultProjection
from penstock.settings import Settings
from tests.operators.aggregate.over_joins.test_join_aggregates import COUNTED, counts, expected, life  # noqa: F401
from tests.support.join_life import Life
from tests.support.watched import watched


def empty_all(life: Life) -> None:  # noqa: F811
    with life.db.standing.locked() as store:
        for family in store.slices._families_of_results():
            family.empty()


@pytest.mark.parametrize("at", [1, 2, 5])
def test_emptied_while_some_results_are_taken_in(life: Life, monkeypatch: Any, at: int) -> None:  # noqa: F811
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN ('2020-01-01') END (NOW)")
    life.push()
    calls: list[int] = []

    def emptying(_: object) -> None:
        calls.append(1)
        if len(calls) == at:
            empty_all(life)

    monkeypatch.setattr(module, "READ_ROWS", 10)
    with watched(ResultProjection.results, tell=emptying):
        assert counts(life) == expected(life) and len(calls) > 2 * at
        calls[:] = [1] * at
        assert counts(life) == expected(life)


def test_emptied_between_a_look_and_what_is_read_beside_it(life: Life) -> None:  # noqa: F811
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN (NOW - 2500 MS) END (NOW)")
    life.push()
    life.push()
    wanted = expected(life, life.now() - 2_500_000)
    assert counts(life) == wanted
    with watched(JoinAggregateAt._read, tell=lambda _: empty_all(life)):
        assert counts(life) == wanted


def test_given_up_while_results_are_taken_in_it_fails_and_does_not_begin_again(life: Life, monkeypatch: Any) -> None:  # noqa: F811
    life.execute(f"CREATE QUERY counted AS {COUNTED} BEGIN ('2020-01-01') END (NOW)")
    life.push()
    calls: list[int] = []

    def full(_: object) -> None:
        calls.append(1)
        if len(calls) > 1:
            with life.db.standing.locked() as store:
                store.limit_slices(Settings(slices_memory_mb=0, exact_values_max=1000))

    monkeypatch.setattr(module, "READ_ROWS", 10)
    with watched(ResultProjection.results, tell=full), pytest.raises(PenstockError) as refused:
        counts(life)
    assert refused.value.condition == "over_budget" and len(calls) == 2
    life.execute("ALTER QUERY counted PAUSE")
    life.execute("ALTER QUERY counted RESUME")
    life.push()
    assert counts(life) == expected(life)
