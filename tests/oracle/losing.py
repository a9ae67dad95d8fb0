"""Sheets for everything, and lost at any moment: what is soft must never show."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from penstock.cycle.cut import Limits
from penstock.database.database import Database
from penstock.expr import rare_masks
from penstock.operators.select import step, storage_choice, strategy_costs
from tests.oracle import rig
from tests.oracle.commands import Command, CreateQuery, Cycle


class Losing:
    """Makes every unit write a sheet, loses some before the fold, between cycles and for good, and draws strategies."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._random = random.Random(seed)
        self.written = self.lost = 0
        monkeypatch.setattr(step, "MATRIX_MIN_QUERIES", 1)
        monkeypatch.setattr(step, "SHEET_MIN_QUERIES", 1)
        monkeypatch.setattr(step, "SHEET_MIN_ROWS", self._random.choice([1, 4]))
        monkeypatch.setattr(step, "SHEET_MAX_ROWS", self._random.choice([2, 64, 1 << 16]))
        monkeypatch.setattr(step, "RARE_ROWS", self._random.choice([0, 0, 2]))
        monkeypatch.setattr(step, "RARE_SHARE", 1 << 30)
        monkeypatch.setattr(rare_masks, "RARE_SHARE", self._random.choice([1, 1, 3, 64]))
        self._rename = os.rename
        monkeypatch.setattr(os, "rename", self._write)
        monkeypatch.setattr(rig, "Limits", self._limits)
        monkeypatch.setattr(storage_choice, "LOOK_CYCLES", self._random.choice([1, 3, 16]))
        monkeypatch.setattr(strategy_costs, "ASKED_PER_CYCLE", self._random.choice([0.1, 1.5]))
        monkeypatch.setattr(CreateQuery, "sql", property(self._create))

    def _write(self, source: Path, target: Path) -> None:
        """Put a file in its place. Of sheets, some find no room, and some are gone a moment later."""
        if Path(target).suffix != ".sheet":
            return self._rename(source, target)
        self.written += 1
        if self._random.random() < 0.05:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._rename(source, target)
        if self._random.random() < 0.1:
            self.lost += 1
            target.unlink()

    def after_cycle(self, db: Database) -> None:
        """Lose some sheets that are in use, or now and then all of them."""
        share = 1.0 if self._random.random() < 0.1 else 0.1
        with db.standing.locked() as store:
            for shelf in store.matches.stores.values():
                some = [kept for kept in shelf.sheets if self._random.random() < share]
                self.lost += len(some)
                shelf.give_up(some)

    def _create(self, command: CreateQuery) -> str:
        chosen = self._random.choice(["auto", "complete", "partial", "none"])
        return f"CREATE QUERY {command.name} WITH (strategy = '{chosen}') AS {command.query.select_sql()}"

    def _limits(self, cycle_rows: int, fill_rows: int) -> Limits:
        return Limits(cycle_rows, fill_rows, history_rows=self._random.choice([0, 3, 1000]))


class ChangingRig(rig.Rig):
    """Strategies change and queries sleep and wake while data flows."""

    def step(self, command: Command) -> None:
        super().step(command)
        names = sorted(self.db.catalog.state.queries)
        if isinstance(command, Cycle) and names and self.random.random() < 0.2:
            chosen = self.random.choice(["auto", "complete", "partial", "none"])
            self.db.execute(f"ALTER QUERY {self.random.choice(names)} SET STRATEGY {chosen}")
        if isinstance(command, Cycle) and names and self.random.random() < 0.3:
            known = [query.id for query in self.db.catalog.state.queries.values()]
            some = self.random.sample(known, self.random.randint(1, len(known)))
            self.db.catalog.plan_run(some[::2], some[1::2])
