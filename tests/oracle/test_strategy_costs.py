"""Random stories in which costs choose the strategy of each query, cycle by cycle: the answers are the oracle's through every switch."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from penstock.operators.select import storage_choice, strategy_costs
from penstock.operators.select.strategy_costs import RowCost
from penstock.views.idle_queries import IdleQueries
from tests.oracle import rig
from tests.oracle.commands import Command, Cycle

SEEDS = range(100) if os.environ.get("PENSTOCK_SOAK") else range(4)


class CostRig(rig.Rig):
    """What a row takes changes at random, so that each strategy is the cheapest now and then."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self.switches = 0
        self._was: dict[int, str] = {}
        super().__init__(folder, seed)

    def open(self) -> None:
        super().open()
        self.db.idle_queries.close()
        self.looks = IdleQueries(self.db.standing, self.db.catalog, 60.0, self._row_cost)

    def _row_cost(self, _: int) -> RowCost:
        return RowCost(self.random.choice((1.0, 1e5, 1e9)), self.random.choice((0.0, 1e6)), 1.0)

    def step(self, command: Command) -> None:
        super().step(command)
        if not isinstance(command, Cycle):
            return
        self.looks.look()
        now: dict[int, str] = {q: self.db.standing.strategy_of(q) for q in self.db.standing.store.answers}
        self.switches += sum(self._was.get(query, kind) != kind for query, kind in now.items())
        self.seen.update(now.values())
        self._was = now


def test_answers_are_the_same_through_every_switch_of_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_choice, "LOOK_CYCLES", 3)
    seen: Counter[str] = Counter()
    compared = switches = 0
    for seed in SEEDS:
        monkeypatch.setattr(strategy_costs, "ASKED_PER_CYCLE", (0.1, 1.5)[seed % 2])
        made = CostRig(tmp_path / str(seed), seed)
        made.tell(seed, 120)
        seen += made.seen
        compared += made.compared
        switches += made.switches
    assert compared > 100 and switches > 20
    assert seen.keys() == {"complete", "partial", "none"}
