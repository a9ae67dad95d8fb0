"""Money neither comes nor goes: whoever reads balances, when and however often, finds that they add up to zero."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from itertools import count

import pytest

from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.support.examples import SOAK
from tests.support.pipe import Pipe
from tests.support.transfers import Watcher, queries, set_up, transfers

# Readers take the processor as long as cycles run.
LIVES, CYCLES = 3, 15 if SOAK else 8


def test_all_balances_run_in_the_shared_cycle(pipe: Pipe) -> None:
    set_up(pipe.db)
    for name in queries():
        assert isinstance(plan_from_json(pipe.db.definition(name).plan), AggregatePlan), name


@pytest.mark.parametrize("seed", [1, 2, 3] if SOAK else [1])
def test_the_total_is_never_seen_off_zero_under_load_and_restarts(seed: int, pipes: Callable[..., Pipe]) -> None:
    chance = random.Random(seed)
    # Few rows a cycle: cycles end in the middle of pushes.
    pipe = pipes(cycle_max_rows=chance.choice([7, 50, 300_000]))
    set_up(pipe.db)
    pipe.engine.drain()
    pushed = 0
    for life in range(LIVES):
        with Watcher(pipe.db) as watcher:
            pushed += under_load(pipe, random.Random(f"{seed} {life}"))
        assert watcher.wrong == [], f"seed {seed}, life {life}"
        assert watcher.seen["asked"] and watcher.seen["followed"], watcher.seen
        if chance.random() < 0.5:
            pipe.engine.drain()  # or it stops with rows that no cycle has met
        pipe.restart()
    pipe.engine.drain()
    with Watcher(pipe.db) as watcher:
        pass
    assert watcher.wrong == [] and pushed > 0
    paid = pipe.db.invoke("paid_ever").table.to_pylist()
    received = pipe.db.invoke("received_ever").table.to_pylist()
    assert sum(row["sum"] for row in paid) == sum(row["sum"] for row in received) == pipe_total(pipe)


def under_load(pipe: Pipe, chance: random.Random) -> int:
    """Cycles in this thread, pushes in another one; how many transfers were pushed."""
    stop, pushed = threading.Event(), count()

    def push() -> None:
        while not stop.is_set():
            pipe.clock.advance(chance.randrange(200_000))
            some = transfers(chance, pipe.clock.now_us(), chance.randrange(1, 40))
            receipt = pipe.db.push("accounts", some)
            for _ in range(receipt.accepted):
                next(pushed)
            stop.wait(0.002)

    pushing = threading.Thread(target=push, daemon=True)
    pushing.start()
    for _ in range(CYCLES):
        pipe.engine.cycle()
    stop.set()
    pushing.join(120)
    assert not pushing.is_alive()
    return next(pushed)


def pipe_total(pipe: Pipe) -> int:
    """What the log says, row by row."""
    pipe.db.execute("CREATE QUERY everything AS SELECT amount FROM accounts BEGIN ('2000-01-01') END (NOW)")
    pipe.engine.drain()
    return sum(pipe.db.standing.invoke("everything").table.column("amount").to_pylist())
