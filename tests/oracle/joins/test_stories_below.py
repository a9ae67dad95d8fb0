"""The same random joins with something on top: what Spark SQL is given is the join by its definition."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.operators.join.view import own_join
from penstock.sql.plan import SparkPlan, plan_from_json
from tests.oracle.joins.stories import Story

SEEDS = range(100, 300) if os.environ.get("PENSTOCK_SOAK") else range(100, 108)


class _NoSpark:
    """Accepts every query; what it is given is compared where it comes from."""

    def run(self, plan: SparkPlan, *_: Any) -> pa.Table:
        return pa.table({name: pa.array([], type_.to_arrow()) for name, type_ in plan.outputs})


class ToppedStory(Story):
    """Every question is ordered, which is enough to put Spark SQL on top; its columns are the core's, in their order."""

    own_writes_s = 0.0
    runner = staticmethod(lambda *_: _NoSpark)

    def rows_of(self, name: str) -> pa.Table:
        """What the join below gives to Spark SQL."""
        held = own_join(self.db.standing, name, self.db.standing.log_access())
        return held.rows(held.inside())

    def ask(self, most_streams: int = 4) -> None:
        if len(self.questions) >= 6:
            return
        self.made += 1
        question = self.make_question(f"q{self.made}", most_streams)
        while self.engine.cycle() is not None and self.random.random() < 0.9:
            pass  # a new query of Spark SQL is tried as of a cycle that knows its tables
        self.db.execute(f"CREATE QUERY {question.name} AS {question.sql} ORDER BY 1")
        definition = self.db.catalog.state.queries[question.name]
        plan = plan_from_json(definition.plan)
        assert isinstance(plan, SparkPlan) and plan.core is not None, question.sql
        question.start = definition.start_us
        self.questions[question.name] = question


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_below_equal_their_definition(seed: int, tmp_path: Path) -> None:
    assert ToppedStory(tmp_path / "data", seed).tell(steps=45, most_streams=3) > 0
