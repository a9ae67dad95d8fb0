"""A whole database without Spark that ends at one step of ingest or commit, life after life on one folder.

`python -m tests.crash.child FOLDER STEP:COUNT ...`: each life pushes, registers a query that must fill, runs
cycles, and ends without a word when it reaches its step for the COUNTth time. Prints the exit codes: 7 if it died
there. The step follower:lag is another one: half-way a reader holds the answers, and the life ends when the follower is
COUNT cycles behind. All lives are forks of this process, which has imported everything and started nothing.
"""

from __future__ import annotations

import os
import random
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from penstock.database.database import Database
from penstock.settings import Settings
from penstock.streams.ingest.rules import warm_up
from penstock.streams.log.atomic_file import CrashPoint, no_crash
from penstock.views.standing_queries import Intervals
from tests.support.brute_force import keep_journal
from tests.support.crashing import crash_at
from tests.support.examples import SOAK
from tests.support.local_engine import LocalEngine
from tests.support.workload import TABLES, create_tables, late_question, questions, reading

PUSHES = 30 if SOAK else 20
ROWS = 9
LAG = "follower:lag"


def settings(folder: Path) -> Settings:
    # Small pieces, so that a fill takes several cycles, files are merged and snapshots written within a life.
    return Settings(data=str(folder), fill_max_rows=60, compact_after_segments=8, cycles_keep=20)


def open_database(folder: Path, crash_point: CrashPoint = no_crash) -> Database:
    keep_journal(folder)

    def engine(*arguments: Any) -> LocalEngine:
        return LocalEngine(*arguments, crash_point=crash_point)

    found = Database(settings(folder), None, engine, Intervals(snapshot_cycles=11), crash_point=crash_point)  # type: ignore[arg-type]
    found.start()
    return found


def fall_behind(db: Database, holding: ExitStack) -> None:
    """From now on a reader holds the answers, and cycles are committed without them."""
    db.engine.lag = lambda: 0  # as Spark does, which waits for nothing
    holding.enter_context(db.standing.locked())


def live(folder: Path, life: int, lag: int | None, crash_point: CrashPoint) -> None:
    db = open_database(folder, crash_point)
    if "probes" not in db.catalog.state.tables:
        create_tables(db.execute)
        db.register([(q.name, q.sql) for table in TABLES for q in questions(table)])
    for table in TABLES:
        db.execute(late_question(table, life).create)
    # The sender goes on where its last acknowledgement was, and repeats what it does not know about.
    done = folder / "acknowledged"
    first = int(done.read_text()) if done.exists() else 0
    with done.open("w") as file, ExitStack() as holding:
        file.write(str(first))
        file.flush()
        for number in range(first, first + PUSHES):
            table = list(TABLES)[number % 2]
            chance = random.Random(number)
            rows = [reading(table, number * ROWS + i, chance) for i in range(ROWS)]
            receipt = db.push(table, rows, f"key-{number}")
            assert (receipt.accepted, receipt.position) == (ROWS, (number // 2 + 1) * ROWS), receipt
            file.seek(0)
            file.write(str(number + 1))
            file.flush()
            if number % 5 == 4:
                db.execute(f"UPDATE {table} SET floor = {number % 3} WHERE id = {number % 6}")
            if lag is not None and number == first + PUSHES // 3:
                fall_behind(db, holding)
            db.engine.cycle()  # type: ignore[attr-defined]
            if db.follower.lag == lag:
                os._exit(7)
    db.stop()


if __name__ == "__main__":
    where = Path(sys.argv[1])
    where.mkdir(parents=True, exist_ok=True)
    warm_up()
    for number, argument in enumerate(sys.argv[2:]):
        name, _, times = argument.rpartition(":")
        child = os.fork()
        if child == 0:
            crash_point = crash_at(name, int(times), lambda: os._exit(7))
            live(where, number, int(times) if name == LAG else None, crash_point)
            sys.stdout.flush()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
