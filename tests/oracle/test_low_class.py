"""Random stories in which queries of class low stand behind: each answer is the oracle's at the cycle that its reply names."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from penstock.cycle.offset import Offset
from penstock.errors import PenstockError
from tests.oracle import compare, rig
from tests.oracle.commands import Command, CreateQuery, Cycle
from tests.support.local_engine import LocalEngine

SEEDS = range(100) if os.environ.get("PENSTOCK_SOAK") else range(4)
CLASSES = ("high", "normal", "low", "low")


class RandomPace:
    """Lets the class read a random number of rows in each cycle, or all of them."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def rows(self, new: int, low: int) -> int | None:
        return self._chance.choice((0, 1, 3, 8, None))

    def begin_cycle(self, new: int, low: int) -> None:
        pass

    def end_cycle(self) -> None:
        pass


class PriorityRig(rig.Rig):
    """Queries have random classes, which change while data flows, as do strategies and sleep."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.late = 0
        self.ends: dict[int, Offset] = {}
        super().__init__(folder, seed)

    def _engine(self, *arguments: Any) -> LocalEngine:
        engine = super()._engine(*arguments)
        engine._planner.pace = RandomPace(self.random)
        return engine

    def step(self, command: Command) -> None:
        super().step(command)
        names = sorted(self.db.catalog.state.queries)
        if isinstance(command, CreateQuery) and command.name in names:
            self.db.execute(f"ALTER QUERY {command.name} SET PRIORITY {self.random.choice(CLASSES)}")
        if isinstance(command, Cycle) and names and self.random.random() < 0.15:
            self.db.execute(f"ALTER QUERY {self.random.choice(names)} SET PRIORITY {self.random.choice(CLASSES)}")
        if isinstance(command, Cycle) and names and self.random.random() < 0.1:
            chosen = self.random.choice(["auto", "complete", "partial", "none"])
            self.db.execute(f"ALTER QUERY {self.random.choice(names)} SET STRATEGY {chosen}")
        if isinstance(command, Cycle) and names and self.random.random() < 0.1:
            known = [query.id for query in self.db.catalog.state.queries.values()]
            some = self.random.sample(known, self.random.randint(1, len(known)))
            self.db.catalog.plan_run(some[::2], some[1::2])

    def cycle(self) -> object:
        record = super().cycle()
        last = self.db.engine.commits.last
        assert last is not None
        self.ends[last.cycle] = last.end
        self.late += last.end.late is not None
        return record

    def compare(self, everything: bool = False) -> None:
        store = self.db.standing.store
        assert store.offset is not None
        for name in self.world.live_queries(store.offset.journal):
            query = store.state.queries[name]
            if store.answers[query.id].filling is not None:
                assert not everything, f"{name} never finished filling"
                continue
            try:
                found = self.db.standing.invoke(name)
            except PenstockError as failure:  # it stands where it had read its history not yet
                assert failure.condition == "not_ready" and store.offset.late is not None and not everything
                continue
            assert found.cycle is not None
            if found.cycle != store.cycle:
                assert query.priority == "low" and store.offset.late is not None
                assert any("LAGGING" in notice for notice in found.notices)
            end = self.ends.get(found.cycle) or self.db.engine.commits.read(found.cycle).end
            if query.id in end.filling:  # there it still answered through the window before
                continue
            expected = self.world.answer(name, end.data, end.journal, end.now_us)
            wrong = compare.difference(expected, compare.rows_of(found.table))
            assert wrong is None, f"{name} at cycle {found.cycle} of {store.cycle}: {wrong}\n{query.sql}"
            self.compared += 1


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_of_queries_that_stand_behind_are_those_of_the_cycle_where_they_stand(
    tmp_path: Path, seed: int
) -> None:
    made = PriorityRig(tmp_path / "data", seed)
    made.tell(seed, 120)
    assert made.compared > 20 and made.late > 0
