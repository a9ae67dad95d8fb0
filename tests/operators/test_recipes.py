"""The recipes of the documentation that run in the cycle answer what was worked out by hand."""

from __future__ import annotations

import pytest

from penstock.sql.plan import evaluated_by_spark, plan_from_json
from tests.support.pipe import Pipe
from tests.support.recipes import ANSWERS, IN_THE_CYCLE, check, push, recipes, set_up


def test_every_recipe_has_an_answer_to_be_held_against() -> None:
    assert recipes().keys() == ANSWERS.keys()


@pytest.mark.parametrize("there_before", [True, False], ids=["query first", "readings first"])
def test_recipes_answer_without_spark(pipe: Pipe, there_before: bool) -> None:
    set_up(pipe.db)
    asked = {name: sql for name, sql in recipes().items() if name in IN_THE_CYCLE}
    # The readings are of one day; NOW of each stream is its own newest.
    pipe.clock.advance(2 * 365 * 24 * 3600 * 1_000_000)
    for turn in (there_before, not there_before):
        if turn:
            for sql in asked.values():
                pipe.db.execute(sql)
        else:
            push(pipe.db)
        pipe.engine.drain()
    for name in asked:
        assert not evaluated_by_spark(plan_from_json(pipe.db.definition(name).plan)), name
        check(name, pipe.db.standing.invoke(name).table.to_pylist())
