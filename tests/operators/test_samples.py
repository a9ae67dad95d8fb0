"""TABLESAMPLE: the same readings whoever asks, whenever and however; against their places in the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.sql.plan import SparkPlan, plan_from_json
from tests.expr.reference import xxhash64
from tests.support.pipe import Pipe

WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"
TENTH = "TABLESAMPLE BERNOULLI (10) REPEATABLE (7)"
ASKED = {
    "rows": f"SELECT value FROM probes {TENTH} {WINDOW}",
    "large": f"SELECT value FROM probes p {TENTH} WHERE value >= 300 AND place = 'north' {WINDOW}",
    "counted": f"SELECT COUNT(*) AS value FROM probes {TENTH} {WINDOW}",
    "summed": f"SELECT SUM(value) AS value FROM probes {TENTH} GROUP BY place {WINDOW}",
    "newest": f"SELECT MAX(value) AS value FROM probes {TENTH} BEGIN (LAST 100 ROWS)",
    "every": f"SELECT value FROM probes TABLESAMPLE PERIODIC (100) REPEATABLE (3) {WINDOW}",
    "paired": (
        f"SELECT a.value FROM probes a TABLESAMPLE BERNOULLI (30), probes b WINDOW = 1 SECOND"
        f" WHERE a.value = b.value {WINDOW}"
    ),
}


def kept(position: int, percent: float, seed: int) -> bool:
    return xxhash64(position, seed) % 1_000_000_000 < percent * 10_000_000


def truths(values: list[float]) -> dict[str, list[Any]]:
    tenth = [v for i, v in enumerate(values) if kept(i, 10, 7)]
    places = [[v for v in tenth if int(v) // 50 % 2 == sensor] for sensor in (0, 1)]
    newest = [v for i, v in enumerate(values) if i >= len(values) - 100 and kept(i, 10, 7)]
    return {
        "rows": tenth,
        "large": [v for v in places[0] if v >= 300],
        "counted": [len(tenth)],
        "summed": sorted(sum(place) for place in places if place),
        "newest": [max(newest)],
        "every": [float(v) for v in range(3, len(values), 100)],
        "paired": [v for i, v in enumerate(values) if kept(i, 30, 0)],
    }


def test_who_stands_where_in_the_log_decides_for_everybody_alike(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    values: list[float] = []
    for name, sql in ASKED.items():
        pipe.db.execute(f"CREATE QUERY {name} AS {sql}")
        assert not isinstance(plan_from_json(pipe.db.definition(name).plan), SparkPlan), name
    for turn in range(8):
        for sensor in (1, 2):
            block = [float(v) for v in range(len(values), len(values) + 50)]
            pipe.push(*block, sensor=sensor)
            values += block
        pipe.engine.drain()
        if turn == 4:
            # Compacted files and new ones, and everything remembered gone.
            pipe.db.housekeeper.tend(pipe.db.catalog.state.tables["probes"].id)
            pipe.restart()
        if turn % 4 == 0 or turn == 7:
            for name, truth in truths(values).items():
                assert sorted(pipe.answer(name)) == truth, (turn, name)
    later = {f"{name}_later": sql for name, sql in ASKED.items()}
    for name, sql in later.items():
        pipe.db.execute(f"CREATE QUERY {name} AS {sql}")
    pipe.engine.drain()
    for name, truth in truths(values).items():
        assert sorted(pipe.answer(f"{name}_later")) == truth, name


def test_another_seed_keeps_others_and_about_as_many(pipe: Pipe) -> None:
    pipe.probes()
    for seed in (1, 2):
        pipe.db.execute(
            f"CREATE QUERY q{seed} AS SELECT value FROM probes TABLESAMPLE BERNOULLI (25) REPEATABLE ({seed}) {WINDOW}"
        )
    pipe.push(*map(float, range(2000)))
    pipe.engine.drain()
    one, two = set(pipe.answer("q1")), set(pipe.answer("q2"))
    assert 420 < len(one) < 580 and 420 < len(two) < 580 and 80 < len(one & two) < 170


def test_what_reads_a_sample_reads_no_more_and_as_of_it_is_the_same(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY sampled AS SELECT value FROM probes {TENTH} {WINDOW}")
    pipe.db.execute(f"CREATE QUERY counted AS SELECT COUNT(*) AS value FROM sampled {WINDOW}")
    pipe.push(*map(float, range(500)))
    pipe.engine.drain()
    pipe.engine.drain()
    pipe.push(1000.0)
    pipe.engine.drain()
    found = pipe.answer("sampled")
    assert pipe.answer("counted") == [len([v for v in found if v < 1000])]
    was = pipe.db.execute("SELECT * FROM sampled AS OF NOW").table.column("value").to_pylist()
    assert was == found


@pytest.mark.parametrize("sample", ["BERNOULLI (0)", "BERNOULLI (100)"])
def test_none_and_all(sample: str, pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY q AS SELECT COUNT(*) AS value FROM probes TABLESAMPLE {sample} {WINDOW}")
    pipe.push(1.0, 2.0)
    pipe.engine.drain()
    assert pipe.answer("q") == [0 if "(0)" in sample else 2]
