"""RESAMPLE over much: an answer that is too large is refused early, and readings are looked up in pieces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.operators.resample import once, stream
from penstock.operators.resample.samples import pieces_in_time
from tests.operators.resample.streams import ASKED, WINDOW, World, at, in_order
from tests.spark.asking import ask, rows_of
from tests.support.pipe import Pipe
from tests.support.watched import watched

ALL = f"SELECT t.n, RESAMPLE(v.ppm, 8 SECONDS, LINEAR) AS linear FROM times t, v {WINDOW}"


@pytest.mark.parametrize("seed", range(20))
def test_pieces_have_every_reading_once_and_no_more_near_them_than_they_may(seed: int) -> None:
    chance = np.random.default_rng(seed)
    times, near = chance.integers(0, 300, 60), chance.integers(0, 300, 200)
    back, ahead, most = (int(n) for n in chance.integers(0, 20, 3))
    pieces = pieces_in_time(times, near, back, ahead, most)
    assert sorted(np.concatenate(pieces).tolist()) == list(range(60)), seed
    for piece in pieces:
        low, high = times[piece].min(), times[piece].max()
        reached = int(((near >= low - back) & (near <= high + ahead)).sum())
        assert reached <= most or high - low <= back + ahead, seed
        assert (times[piece[0]], times[piece[-1]]) == (low, high), seed
    assert not len(np.concatenate(pieces_in_time(times[:0], near, back, ahead, most)))


@pytest.mark.parametrize("piece", [1, 4])
def test_in_pieces_it_says_the_same(pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(stream, "PIECE_ROWS", piece)
    world = World(pipes, piece)
    world.push(0, 20, 15)
    world.execute(f"CREATE QUERY q AS {ASKED} {WINDOW}")
    for low, high in ((0, 30), (20, 60), (40, 70)):
        world.push(low, high, 20)
        assert world.answer() == world.expected()
        assert in_order(ask(world.pipe.db, f"{ASKED} {WINDOW}")) == world.expected()


def test_an_answer_that_is_too_large_is_refused_before_it_is_read(pipes: Callable[..., Pipe]) -> None:
    world = World(pipes, result_max_rows=10)
    world.push(0, 5, 9)
    world.execute(f"CREATE QUERY q AS {ALL}")
    world.execute(f"CREATE QUERY some AS {ALL.replace('BEGIN', 'WHERE t.n % 2 = 0 BEGIN')}")
    world.execute(f"CREATE QUERY few AS {ALL.replace('BEGIN', 'ORDER BY t.n LIMIT 3 BEGIN')}")
    following = world.pipe.db.subscribe("q")
    event = following.next(0)
    assert event is not None and event.table.num_rows == 10 == len(world.pipe.db.invoke("q").table)
    read: list[object] = []
    world.push(5, 20, 19)
    over: list[Callable[[], object]] = [
        lambda: world.pipe.db.invoke("q"),
        lambda: following.next(0),
        lambda: world.pipe.db.subscribe("q").next(0),
        lambda: ask(world.pipe.db, ALL),
        lambda: world.pipe.db.invoke("q", at(19)),
    ]
    for ask_for_all in over:
        reading = watched(stream.rows_at, tell=read.append)
        with reading, pytest.raises(PenstockError, match="more than 10 rows") as refused:
            ask_for_all()
        assert refused.value.condition == "over_budget" and not read
    assert len(world.pipe.db.invoke("q", limit=5).table) == 5
    with pytest.raises(PenstockError, match="more than 10 rows"):
        world.pipe.db.invoke("q")  # also where the whole answer is known by now
    with pytest.raises(PenstockError, match="more than 10 rows"):
        world.pipe.db.invoke("some")
    assert len(world.pipe.db.invoke("few").table) == 3 == len(world.pipe.db.invoke("q", at(19), 3).table)


def test_an_answer_of_a_past_time_stands_on_one_cycle(pipes: Callable[..., Pipe]) -> None:
    world = World(pipes)
    world.push(0, 30)
    world.execute(f"CREATE QUERY q AS {ASKED} {WINDOW}")
    cycle, expected = world.pipe.db.standing.store.cycle, world.answer(as_of=at(25))
    with watched(once.answer_once, tell=lambda _: world.push(0, 30)):  # another cycle comes first
        found = world.pipe.db.invoke("q", at(25))
    assert found.cycle == cycle and in_order(rows_of(found.table)) == expected
