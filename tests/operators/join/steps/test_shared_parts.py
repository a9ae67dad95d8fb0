"""Parts of one step may differ in whether joins run as one: what all parts find together is what each join finds alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.operators.join.steps import benefit, join_sharing
from tests.operators.join.steps.test_join_sharing import committed
from tests.support.local_engine import LocalEngine
from tests.support.pipe import Pipe
from tests.support.random_choices import RandomChoices

CONSTANTS = range(4)
FORMS = {
    "no key": lambda c: (
        f"SELECT a.n FROM {'a, b' if c % 2 else 'b, a'} WINDOW = 1 SECOND WHERE a.v < b.v - 9 AND a.v > {c} AND b.v > {2 * c}"
    ),
    "some equal": lambda c: (
        f"SELECT a.n FROM {'a, b, c' if c % 2 else 'c, b, a'} WINDOW = 1 SECOND WHERE a.k = b.k AND a.k = 3"
        f" AND c.v > {11 + c / 10} AND a.v > {c}"
    ),
    "a hot key": lambda c: (
        f"SELECT a.n FROM {'a, b' if c % 2 else 'b, a'} WINDOW = 1 MILLISECOND WHERE a.k = b.k AND a.v > {3 * c}"
    ),
}


class Undecided(benefit.Benefit):
    """As workers are that have seen different steps."""

    chance = random.Random(11)

    @property
    def together(self) -> bool:
        return self.chance.random() < 0.5


class ChosenPipe(Pipe):
    """Each step of a join runs by an algorithm that chance chooses."""

    def _make_engine(self, *arguments: Any) -> LocalEngine:
        return LocalEngine(*arguments, clock=self.clock, choices=RandomChoices(7))


def _life(folder: Path, form: str, rows: int, make: type[Pipe] = Pipe) -> list[Any]:
    """What each cycle commits, by query."""
    pipe = make(folder)
    chance = random.Random(5)
    try:
        for table in "abc":
            pipe.db.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (n INT, k INT, v DOUBLE))"
                " WITH (time = 'valid', out_of_order = 'accept')"
            )
            pipe.db.execute(f"INSERT INTO {table} VALUES (1, NULL)")
        for c in CONSTANTS:
            pipe.db.execute(f"CREATE QUERY q{c} AS {FORMS[form](c)}")
        pipe.engine.drain()
        found = []
        for _ in range(3):
            _push(pipe, chance, rows)
            record = pipe.engine.cycle()
            assert record is not None
            found.append(committed(pipe, record))
        return found
    finally:
        pipe.db.stop()


def _push(pipe: Pipe, chance: random.Random, rows: int) -> None:
    pipe.clock.advance(4_000_000)
    for table in "abc":
        times = sorted(pipe.clock.now_us() + chance.randint(0, 4_000_000) for _ in range(rows))
        hot = [3 if chance.random() < 0.6 else chance.randint(0, rows) for _ in range(rows)]
        columns = {
            "id": pa.array([1] * rows, pa.int32()),
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "n": pa.array(range(rows), pa.int32()),
            "k": pa.array(hot, pa.int32()),
            "v": pa.array([float(chance.randint(0, 12)) for _ in range(rows)]),
        }
        pipe.db.push(table, pa.table(columns))


@pytest.mark.parametrize(("form", "rows"), [("no key", 150), ("some equal", 100), ("a hot key", 11_000)])
def test_parts_that_disagree_about_running_as_one_find_everything_once(
    form: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_sharing, "SHARING", False)
    alone = _life(tmp_path / "alone", form, rows)
    monkeypatch.setattr(join_sharing, "SHARING", True)
    monkeypatch.setattr(benefit, "Benefit", Undecided)
    mixed = _life(tmp_path / "mixed", form, rows)
    assert sum(len(results) for cycle in alone for results in cycle.values()) > 100
    chosen = _life(tmp_path / "chosen", form, rows, ChosenPipe)
    assert mixed == alone
    assert chosen == alone
