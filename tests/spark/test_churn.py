"""A hundred queries (two hundred in `make soak`) come, change and go while readings flow; each sees the past, and none disturbs another."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any

from penstock.database.database import Database
from tests.support.brute_force import History, JoinQuestion, LastRows, Question
from tests.support.workload import SECOND, check_answers, create_tables, questions, reading

QUERIES = 200 if os.environ.get("PENSTOCK_SOAK") else 100
BATCH = 150


class Feeder(threading.Thread):
    """Some thousand readings a second, into both tables."""

    def __init__(self, db: Database) -> None:
        super().__init__(daemon=True)
        self.db = db
        self.rows = 0
        self.problem: BaseException | None = None
        self.ending = threading.Event()

    def run(self) -> None:
        chance = random.Random(5)
        try:
            while not self.ending.wait(0.05):
                for table in ("probes", "meters"):
                    rows = [reading(table, self.rows + i, chance) for i in range(BATCH)]
                    assert self.db.push(table, rows).accepted == BATCH
                    self.rows += BATCH
        except BaseException as problem:
            self.problem = problem


def make(number: int, chance: random.Random) -> Question:
    table = chance.choice(("probes", "meters"))
    limit, floor, site = chance.randrange(100), chance.randrange(3), chance.choice(("north", "south"))
    where = f"v > {limit}"
    how: dict[str, Any] = {"keeps": lambda r: r["v"] > limit}
    if chance.random() < 0.5:
        where += f" AND floor = {floor}"
        how["picks"] = lambda r: r["floor"] == floor
    elif chance.random() < 0.5:
        where += f" AND site = '{site}'"
        how["picks"] = lambda r: r["site"] == site
    clause, window = window_of(chance)
    return Question(
        f"churn_{number}", table, f"SELECT seq, v, floor FROM {table} WHERE {where} {clause}", window, **how
    )


def window_of(chance: random.Random) -> tuple[str, Any]:
    seconds = chance.randint(1, 20)
    return chance.choice(
        [
            (f"BEGIN (NOW - {seconds} SECONDS) END (NOW)", lambda now, start: (now - seconds * SECOND, now)),
            ("BEGIN (NOW - 1 HOUR) END (NOW)", lambda now, start: (now - 3600 * SECOND, now)),
            (f"BEGIN (START - {seconds} SECONDS) END (NOW)", lambda now, start: (start - seconds * SECOND, now)),
            ("BEGIN (LAST 50 ROWS)", LastRows(50)),
            ("BEGIN (LAST 3 ROWS PER SENSOR)", LastRows(3, True)),
        ]
    )


def test_queries_come_change_and_go_while_data_flows(db: Database) -> None:
    chance = random.Random(17)
    create_tables(db.execute)
    # Many readings are stored at the same moment here: probes joined with themselves would be millions.
    bystanders = [q for q in questions("probes") if not isinstance(q, JoinQuestion)] + questions("meters")
    db.register([(q.name, q.sql) for q in bystanders])
    feeder = Feeder(db)
    feeder.start()
    living: list[Question] = []
    try:
        for number in range(QUERIES):
            made = make(number, chance)
            db.execute(made.create)
            living.append(made)
            if number % 4 == 3:
                gone = living.pop(chance.randrange(len(living)))
                db.execute(f"DROP QUERY {gone.name}")
            if number % 7 == 6:
                place = chance.randrange(len(living))
                clause, window = window_of(chance)
                old = living[place]
                if not clause.startswith("BEGIN (START"):
                    db.execute(f"ALTER QUERY {old.name} SET {clause}")
                    living[place] = Question(old.name, old.table, old.sql, window, old.keeps, old.picks)
            if number % 50 == 49:
                check_answers(db, db.folder.root, bystanders)
            time.sleep(0.01)
    finally:
        feeder.ending.set()
        feeder.join(120)
    assert feeder.problem is None
    db.wait_for_own_writes()
    db.standing.feed.wait(lambda: not db.standing.store.offset.filling, 120)  # type: ignore[union-attr]
    check_answers(db, db.folder.root, bystanders)
    check_answers(db, db.folder.root, living)
    assert len(living) == QUERIES - QUERIES // 4
    cycle = db.standing.store.cycle
    assert sum(History(db.folder.root).record(cycle).end.data.values()) >= feeder.rows
