"""Files of the log that are damaged or gone: the table they belong to says so by name, everything else goes on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.database.database import Database
from penstock.errors import PenstockError
from tests.crash.child import open_database
from tests.support.brute_force import defined_at
from tests.support.workload import TABLES, check_answers, create_tables, questions, reading

QUESTIONS = {table: questions(table) for table in TABLES}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    made = open_database(tmp_path / "data")
    create_tables(made.execute)
    made.register([(q.name, q.sql) for table in TABLES for q in QUESTIONS[table]])
    yield made
    made.stop()


def push(db: Database, first: int) -> None:
    for table in TABLES:
        chance = random.Random(first)
        db.push(table, [reading(table, first + i, chance) for i in range(20)])


def drain(db: Database) -> None:
    db.engine.drain()  # type: ignore[attr-defined]


def files(db: Database, table: str) -> list[Path]:
    number = defined_at(db.folder.root, 2**60).tables[table]["id"]
    return sorted((db.folder.log / str(number)).iterdir())


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_readings_that_no_cycle_has_seen_yet(db: Database, how: str) -> None:
    push(db, 0)
    drain(db)
    push(db, 100)
    victim = files(db, "meters")[-1]
    push(db, 200)
    whole = victim.read_bytes()
    if how == "damaged":
        victim.write_bytes(b"no Arrow at all")
    else:
        victim.unlink()
    drain(db)
    for question in QUESTIONS["meters"]:
        with pytest.raises(PenstockError) as caught:
            db.invoke(question.name)
        assert caught.value.condition == "corrupt_segment"
        if how == "damaged":
            assert victim.name in caught.value.message
    check_answers(db, db.folder.root, QUESTIONS["probes"])
    push(db, 300)
    drain(db)
    check_answers(db, db.folder.root, QUESTIONS["probes"])
    # Put back from a backup, the file is history like any other.
    victim.write_bytes(whole)
    for question in QUESTIONS["meters"]:
        db.execute(f"ALTER QUERY {question.name} PAUSE")
        db.execute(f"ALTER QUERY {question.name} RESUME")
    drain(db)
    check_answers(db, db.folder.root, [q for table in TABLES for q in QUESTIONS[table]])


@pytest.mark.parametrize("place", [0, 1])
def test_history_that_a_new_query_must_fill_from(db: Database, place: int) -> None:
    for first in (0, 100, 200):
        push(db, first)
    drain(db)
    files(db, "meters")[place].write_bytes(b"no Arrow at all")
    for table in TABLES:
        db.execute(f"CREATE QUERY {table}_new AS SELECT seq FROM {table} BEGIN (NOW - 1 HOUR) END (NOW)")
    drain(db)
    with pytest.raises(PenstockError) as caught:
        db.invoke("meters_new")
    assert caught.value.condition == "corrupt_segment"
    assert db.invoke("probes_new").table.num_rows == 60
