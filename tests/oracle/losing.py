"""Sheets for everything, and lost at any moment: what is soft must never show."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from penstock.cycle.cut import Limits
from penstock.operators.select import step, storage_choice
from penstock.operators.select.bit_matrix import BitMatrix, write_matrix
from penstock.operators.select.state import SelectState
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
        monkeypatch.setattr(step, "write_matrix", self._write)
        monkeypatch.setattr(rig, "Limits", self._limits)
        monkeypatch.setattr(storage_choice, "LOOK_CYCLES", self._random.choice([1, 3, 16]))
        monkeypatch.setattr(storage_choice, "ASKED_PER_CYCLE", self._random.choice([0.1, 1.5]))
        monkeypatch.setattr(CreateQuery, "sql", property(self._create))
        give_up = SelectState.give_up_passed
        monkeypatch.setattr(SelectState, "give_up_passed", lambda *given: self._give_up(give_up, *given))

    def _write(self, folder: Path, sheet: BitMatrix) -> str | None:
        self.written += 1
        name = write_matrix(folder, sheet)
        if name is not None and self._random.random() < 0.1:
            self.lost += 1
            (folder / name).unlink()
        return None if self._random.random() < 0.05 else name

    def _give_up(self, give_up: Any, matches: SelectState, now_of: Any, spans: Any, most: int) -> list[Path]:
        gone: list[Path] = give_up(matches, now_of, spans, 0 if self._random.random() < 0.1 else most)
        for shelf in matches.stores.values():
            some = [kept for kept in shelf.sheets if self._random.random() < 0.1]
            self.lost += len(some)
            shelf.give_up(some)
        return gone

    def _create(self, command: CreateQuery) -> str:
        chosen = self._random.choice(["auto", "complete", "partial", "none"])
        return f"CREATE QUERY {command.name} WITH (strategy = '{chosen}') AS {command.query.select_sql()}"

    def _limits(self, cycle_rows: int, fill_rows: int) -> Limits:
        return Limits(cycle_rows, fill_rows, history_rows=self._random.choice([0, 3, 1000]))


class ChangingRig(rig.Rig):
    """Strategies change while data flows."""

    def step(self, command: Command) -> None:
        super().step(command)
        names = sorted(self.db.catalog.state.queries)
        if isinstance(command, Cycle) and names and self.random.random() < 0.2:
            chosen = self.random.choice(["auto", "complete", "partial", "none"])
            self.db.execute(f"ALTER QUERY {self.random.choice(names)} SET STRATEGY {chosen}")
