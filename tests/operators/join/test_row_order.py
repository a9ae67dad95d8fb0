"""The rows of a window join's answer come by their earliest time, whichever cycle and whichever task found them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.clock import SECOND
from tests.support.pipe import BEGAN_US, Pipe

INNER = "SELECT a.n AS a, b.n AS b FROM t a, u b WINDOW(a,b) = 1 SECOND WHERE a.k = b.k"
LEFT = "SELECT a.n AS a, b.n AS b FROM t a LEFT JOIN u b ON a.k = b.k WINDOW(a,b) = 1 SECOND"


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "data")
    for table in ("t", "u"):
        options = "WITH (time = 'valid', out_of_order = 'accept', idle = '10 SECONDS')"
        made.db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (k INT, n INT)) {options}")
        made.db.execute(f"INSERT INTO {table} VALUES (1, NULL)")
    yield made
    made.db.stop()


@pytest.mark.parametrize("asks", [INNER, LEFT])
@pytest.mark.parametrize("seed", range(3))
def test_an_answer_is_ordered_by_earliest_time_then_by_latest(pipe: Pipe, asks: str, seed: int) -> None:
    chance = random.Random(seed)
    pipe.db.execute(f"CREATE QUERY pairs AS {asks} BEGIN (NOW - 1 HOUR) END (NOW)")
    times: dict[str, dict[int, int]] = {"t": {}, "u": {}}
    keys: dict[str, dict[int, int]] = {"t": {}, "u": {}}
    for turn in range(6):
        for table in ("t", "u"):
            pushed = []
            for number in range(turn * 100, turn * 100 + 15):
                times[table][number] = BEGAN_US + chance.randrange(8 * SECOND)  # late ones in every cycle
                keys[table][number] = chance.randrange(3)
                pushed.append({"id": 1, "ts": times[table][number], "k": keys[table][number], "n": number})
            assert pipe.db.push(table, pushed).accepted == 15
        pipe.engine.drain()
    for number, table in enumerate(("t", "u")):  # nobody's partner: so that windows have passed
        pipe.db.push(table, [{"id": 1, "ts": BEGAN_US + 20 * SECOND, "k": 10 + number, "n": -1}])
    pipe.engine.drain()
    expected = [
        (min(ta, tb), max(ta, tb), a, b)
        for a, ta in times["t"].items()
        for b, tb in times["u"].items()
        if keys["t"][a] == keys["u"][b] and abs(ta - tb) <= SECOND
    ]
    if asks is LEFT:
        met = {a for _, _, a, _ in expected}
        expected += [(ta, ta, a, None) for a, ta in times["t"].items() if a not in met]  # type: ignore[misc]
    spans = {(a, b): (low, high) for low, high, a, b in expected}
    found = pipe.db.invoke("pairs").table
    rows = list(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True))
    assert len(rows) == len(expected) > 20 and set(rows) == set(spans), seed
    assert [spans[row] for row in rows] == sorted(spans.values()), seed
    first = pipe.db.invoke("pairs", None, 7).table
    assert first.equals(found.slice(0, 7))
    assert pipe.db.invoke("pairs", None, 0).table.num_rows == 0
    pipe.restart()
    assert pipe.db.invoke("pairs").table.equals(found)
