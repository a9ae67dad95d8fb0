"""Balances and their total on Spark: also where a query reads another one as a view, the total is never seen off zero."""

from __future__ import annotations

import os
import random
import threading

from penstock.clock import WallClock
from penstock.database.database import Database
from penstock.sql.plan import SparkPlan, plan_from_json
from tests.support.transfers import BALANCES, Watcher, set_up, transfers

PUSHES = 40 if os.environ.get("PENSTOCK_SOAK") else 20


def test_the_total_is_never_seen_off_zero_on_spark(db: Database) -> None:
    set_up(db)
    db.execute(BALANCES)
    assert isinstance(plan_from_json(db.definition("total").plan), SparkPlan)
    db.wait_for_own_writes()
    with Watcher(db) as watcher:
        totals = under_load(db, random.Random(11))
    assert watcher.wrong == []
    assert watcher.seen["asked"] and watcher.seen["followed"]
    assert set(totals) == {0}
    balances = db.execute("SELECT account, balance FROM balances").table.to_pylist()
    assert any(row["balance"] for row in balances) and sum(row["balance"] for row in balances) == 0


def under_load(db: Database, chance: random.Random) -> list[int]:
    """Push in another thread; the totals that were read meanwhile: the query's own, and the sum of its balances."""
    done = threading.Event()

    def push() -> None:
        for _ in range(PUSHES):
            db.push("accounts", transfers(chance, WallClock().now_us(), 30))
            done.wait(0.05)
        done.set()

    pushing = threading.Thread(target=push, daemon=True)
    pushing.start()
    totals = []
    while True:
        ended = done.is_set()
        totals += [row["total"] for row in db.invoke("total").table.to_pylist()]
        totals.append(sum(row["balance"] for row in db.invoke("balances").table.to_pylist()))
        if ended:
            break
    pushing.join(120)
    totals += [row["total"] for row in db.execute("SELECT SUM(balance) AS total FROM balances").table.to_pylist()]
    return totals
