"""Balances over HTTP while servers are killed under their readers: as of any cycle of any life they add up to zero.

`make test` runs one life without Spark, `make soak` also three with Spark, where a query reads another one as a view.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest

from penstock.client import Connection
from penstock.clock import WallClock
from penstock.errors import PenstockError
from tests.support.server_process import ServerProcess, local_server_process, server_process
from tests.support.transfers import (
    ACCOUNTS,
    BALANCES,
    TABLE,
    WINDOWS,
    queries,
    transfers,
)

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
ENGINES = {"without Spark": local_server_process, **({"with Spark": server_process} if SOAK else {})}
LIVES = 3 if SOAK else 1
GONE = {"cycle_gone", "not_ready"}
"""What a reader may be told: cycles went on faster than it, or a new life knows only its own."""


@pytest.mark.parametrize("engine", ENGINES)
def test_balances_add_up_in_every_life_of_the_server(engine: str, tmp_path: Path) -> None:
    views = engine == "with Spark"
    with ENGINES[engine](tmp_path) as server:
        server.start()
        with server.connect() as db:
            db.sql(TABLE)
            db.sql(f"INSERT INTO accounts VALUES {', '.join(f'({i}, NULL)' for i in range(ACCOUNTS))}")
            db.register(list(queries().items()))
            if views:
                db.sql(BALANCES)
        for life in range(LIVES):
            wrong, asked = live(server, random.Random(20 + life), views)
            assert wrong == [] and asked > 0, (life, wrong, server.printed()[-2000:])
            server.kill("server")
            server.assert_all_gone()
            server.start()
        with server.connect() as db:
            found = None
            while found is None:
                found = totals(db, views)
            assert not any(found.values())
            assert any(db.invoke(f"balance_{account}_ever").rows()[0]["balance"] for account in range(ACCOUNTS))
            if views:
                assert db.sql("SELECT * FROM total").rows() == [{"total": 0}]
                assert any(row["balance"] for row in db.sql("SELECT balance FROM balances").rows())


def live(server: ServerProcess, chance: random.Random, views: bool) -> tuple[list[str], int]:
    """A few seconds of pushes, with somebody who reads everything; what did not add up, and how often it was looked at."""
    stop = threading.Event()

    def push() -> None:
        with server.connect() as db:
            while not stop.is_set():
                db.push("accounts", transfers(chance, WallClock().now_us(), 50))
                stop.wait(0.02)

    pushing = threading.Thread(target=push, daemon=True)
    pushing.start()
    wrong: list[str] = []
    asked = 0
    with server.connect() as db:
        until = time.monotonic() + 4
        while time.monotonic() < until or not asked:
            found = totals(db, views)
            asked += found is not None
            wrong += [f"{what}: off by {total}" for what, total in (found or {}).items() if total]
            assert time.monotonic() < until + 120, "no reader ever got an answer"
    # It is killed with rows that no cycle has met, but not under a push: whoever pushes would have to ask what became of it.
    stop.set()
    pushing.join(60)
    assert not pushing.is_alive()
    return wrong, asked


def totals(db: Connection, views: bool) -> dict[str, int] | None:
    """All that must be zero, as of one cycle where kernels answer; None where that cycle is gone."""
    found = {}
    if views:
        found["total of balances"] = sum(row["total"] for row in db.invoke("total").rows())
        found["balances"] = sum(row["balance"] for row in db.invoke("balances").rows())
    cycle = db.status()["cycle"]
    try:
        answers = {name: db.invoke(name, cycle).rows() for name in queries()}
    except PenstockError as failure:
        if failure.condition in GONE:
            return None
        raise
    for word in WINDOWS:
        found[f"{word}, cycle {cycle}"] = sum(
            answers[f"balance_{account}_{word}"][0]["balance"] for account in range(ACCOUNTS)
        )
        paid, received = (sum(row["sum"] for row in answers[f"{name}_{word}"]) for name in ("paid", "received"))
        found[f"paid and received {word}, cycle {cycle}"] = received - paid
        found[f"total {word}, cycle {cycle}"] = answers[f"total_{word}"][0]["balance"]
    return found
