"""Rows per second along the arrows of a plan, held against counting by hand."""

from __future__ import annotations

import random

import pytest

from penstock.database.plan_graph import Flows, plan_graph
from tests.support.pipe import Pipe

PLANT = """
CREATE TABLE plant (id INT PRIMARY KEY, room TEXT, reading STREAM (ppm DOUBLE));
INSERT INTO plant VALUES (1, 'cellar', NULL), (2, 'attic', NULL), (3, 'roof', NULL);
CREATE QUERY pairs AS SELECT a.ppm, b.ppm FROM plant a, plant b WINDOW(a, b) = 1 MINUTE
  WHERE a.id = b.id AND a.ppm > 50 AND b.ppm <= 20 AND b.room <> 'attic'
"""


class Watch:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.mark.parametrize("seed", range(6))
def test_each_step_of_a_join_passes_the_rows_that_satisfy_it(
    pipe: Pipe, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    pipe.db.execute(PLANT)
    graph = plan_graph(pipe.db.definition("pairs"), pipe.db.catalog.state)
    watch = Watch()
    looker = Flows(pipe.db, watch)
    push(pipe, chance)
    assert looker.look(graph) == {}  # what came before the first look is nobody's rate
    most = chance.choice([20_000, 7])
    monkeypatch.setattr("penstock.database.plan_graph.ROWS_A_LOOK", most)
    looked_s = watch.s
    for _ in range(3):
        rows = [row for _ in range(chance.randrange(4)) for row in push(pipe, chance)]
        watch.s += chance.choice([2.0, 5.0])
        seconds, looked_s = watch.s - looked_s, watch.s
        found = looker.look(graph)
        newest = rows[-most:]
        for box in graph.boxes:
            if box.passes is None:
                continue
            mine = [r for r in newest if passes(box.title, box.lines, *r)]
            share = len(mine) / len(newest) if newest else 0.0
            assert found[box.passes] == pytest.approx(len(rows) / seconds * share), f"seed {seed}: {box}"
        watch.s += 0.5
        assert looker.look(graph) == found  # too soon to look again


@pytest.mark.parametrize(
    ("sql", "own"),
    [
        ("SELECT COUNT(*) AS n FROM pairs BEGIN (NOW - 1 MINUTE) END (NOW)", "slices"),
        (
            "SELECT a.ppm, RESAMPLE(b.ppm, 5 SECONDS, LINEAR) AS v FROM plant a, plant b WHERE a.id = b.id",
            "resample",
        ),
        ("SELECT ppm FROM plant WHERE id = 1 UNION ALL SELECT ppm FROM plant", "union"),
        ("SELECT ppm, LAG(ppm) OVER (ORDER BY ts) AS was FROM plant", "window_functions"),
    ],
)
def test_the_last_step_is_that_of_the_operator(pipe: Pipe, sql: str, own: str) -> None:
    pipe.db.execute(PLANT.replace("a.ppm, b.ppm FROM", "a.ppm, b.ppm AS other FROM"))
    pipe.engine.drain()
    pipe.db.execute(f"CREATE QUERY q AS {sql}")
    *_, step, answer = plan_graph(pipe.db.definition("q"), pipe.db.catalog.state).boxes
    assert (step.title, answer.title) == (own, "q")


def push(pipe: Pipe, chance: random.Random) -> list[tuple[int, float]]:
    rows = [(chance.randint(1, 3), float(chance.randrange(100))) for _ in range(chance.randrange(1, 30))]
    assert pipe.db.push("plant", [{"id": sensor, "ppm": ppm} for sensor, ppm in rows]).accepted == len(rows)
    return rows


def passes(title: str, lines: tuple[str, ...], sensor: int, ppm: float) -> bool:
    if title == "plant a":
        return True
    if title == "plant b":
        return sensor != 2
    return ppm > 50 if ">" in lines[0] else ppm <= 20 and sensor != 2
