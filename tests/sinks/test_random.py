"""Sinks under a random life: pushes, refusals, pauses, restarts and kills in any order, against what was pushed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.clock import SECOND
from penstock.sinks import runner
from penstock.sinks.runner import Pace
from tests.sinks.world import Receiver, eventually, hot_probes, kill, push, sink
from tests.support.examples import seeds
from tests.support.pipe import Pipe

STEPS = 40


@pytest.mark.parametrize("seed", seeds(2))
def test_whatever_happens_every_row_arrives_in_order(
    pipes: Callable[..., Pipe], receiver: Receiver, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    # In half of the lives places are written late, so that a kill makes more come again.
    position_s = chance.choice((0.0, 3600.0))
    monkeypatch.setattr(runner, "PACE", Pace(0.02, 0.01, 0.03, 0.03, position_s))
    pipe = pipes(cycles_keep=8)
    hot_probes(pipe)
    pipe.db.execute(f"CREATE SINK web FOR hot TO webhook (url = '{receiver.url}', batch_rows = 2)")
    pipe.db.execute("CREATE SINK kept FOR hot TO files (folder = 'kept', max_age = 2 SECONDS)")
    for name in ("web", "kept"):
        eventually(lambda: sink(pipe, name)["deliveries"] == 1)  # noqa: B023
    expected: list[float] = []
    values = iter(range(11, 10_000))
    for _ in range(STEPS):
        _step(pipe, receiver, chance, expected, values)
        eventually(lambda: _nobody_is_far_behind(pipe), f"seed {seed}")
    receiver.refuse_all = False
    for name in ("web", "kept"):
        pipe.db.execute(f"ALTER SINK {name} RESUME")
    eventually(lambda: all(sink(pipe, name)["lag"] == 0 for name in ("web", "kept")), f"seed {seed}")
    assert [sink(pipe, name)["gaps"] for name in ("web", "kept")] == [0, 0], f"seed {seed}"
    assert list(dict.fromkeys(receiver.rows())) == expected, f"seed {seed}"
    pipe.clock.advance(2 * SECOND)
    folder = pipe.folder / "out" / "kept"
    eventually(lambda: len(_values(folder)) >= len(expected), f"seed {seed}")
    assert _values(folder) == expected, f"seed {seed}"


def _step(pipe: Pipe, receiver: Receiver, chance: random.Random, expected: list[float], values: Iterator[int]) -> None:
    what = chance.random()
    if what < 0.7:
        rows = [float(next(values)) for _ in range(chance.randrange(4))]
        expected += rows
        push(pipe, 1.0, *rows)
        pipe.clock.advance(chance.randrange(SECOND))
    elif what < 0.8:
        receiver.refuse_all = not receiver.refuse_all
    elif what < 0.9:
        name, word = chance.choice(("web", "kept")), chance.choice(("PAUSE", "RESUME"))
        pipe.db.execute(f"ALTER SINK {name} {word}")
    else:
        pipe.db.stop() if what < 0.95 else kill(pipe)
        pipe.open()


def _nobody_is_far_behind(pipe: Pipe) -> bool:
    """Between two cycles of a real server there is time enough for sinks to keep up; here the test leaves it."""
    last = pipe.db.standing.store.cycle
    readers = [f._reader for f in list(pipe.db.sinks._followers.values())]
    return all(r is not None and (r._at or 0) >= last - 2 for r in readers)


def _values(folder: Path) -> list[float]:
    return [v for path in sorted(folder.glob("*.parquet")) for v in pq.read_table(path)["value"].to_pylist()]
