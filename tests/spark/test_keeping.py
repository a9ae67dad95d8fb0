"""What stays: backups taken while everything runs, and retention that takes whole files and nothing needed."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from penstock.database.database import Database
from penstock.settings import Settings
from tests.spark.asking import answer, ask, at, eventually, push
from tests.support.local_engine import LocalEngine
from tests.support.workload import check_answers, create_tables, questions, reading


def test_a_backup_taken_while_readings_flow_opens_with_exact_answers(db: Database, tmp_path: Path) -> None:
    create_tables(db.execute)
    asked = [q for table in ("probes", "meters") for q in questions(table)]
    db.register([(q.name, q.sql) for q in asked])
    ending = threading.Event()
    acknowledged: list[int] = []

    def feed() -> None:
        number, chance = 0, random.Random(3)
        while not ending.wait(0.01):
            table = ("probes", "meters")[number % 2]
            db.push(table, [reading(table, number * 20 + i, chance) for i in range(20)])
            number += 1
            acknowledged.append(number)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    eventually(lambda: len(acknowledged) >= 30)
    before = len(acknowledged)
    db.backup(tmp_path / "copy")
    ending.set()
    feeder.join(60)
    copy = Database(Settings(data=str(tmp_path / "copy")), engine=LocalEngine)
    copy.start()
    try:
        copy.engine.drain()  # type: ignore[attr-defined]
        check_answers(copy, tmp_path / "copy", asked)
        assert sum(copy.log.heads().values()) >= before * 20
        receipt = copy.push("probes", [{"id": 1, "who": 1, "seq": -1, "v": 1.0}])
        assert receipt.accepted == 1
    finally:
        copy.stop()
    db.wait_for_own_writes()
    check_answers(db, db.folder.root, asked)


def test_retention_takes_old_files_and_every_answer_forgets_them_together(db: Database) -> None:
    db.execute(
        "CREATE TABLE meters (id INT PRIMARY KEY, site TEXT, reading STREAM (n INT)) "
        "WITH (time = 'valid', retention = '10 SECONDS'); INSERT INTO meters VALUES (1, 'north', NULL)"
    )
    db.execute("CREATE QUERY w AS SELECT n FROM meters BEGIN (NOW - 1 HOUR) END (NOW)")
    for n in range(6):
        push(db, (1, n * 5, n))
        time.sleep(0.05)
    found = answer(db, "w")
    # Those within ten seconds of the newest must be there; older ones for as long as nobody has tidied up.
    assert found == [(n,) for n in range(6)][-len(found) :] and len(found) >= 3
    table = db.catalog.state.tables["meters"]
    db.housekeeper.tend(table.id)
    eventually(lambda: answer(db, "w") == [(3,), (4,), (5,)])
    assert ask(db, "SELECT n FROM meters ORDER BY n") == [(3,), (4,), (5,)]
    eventually(lambda: removed(db, table.id, 3))
    assert answer(db, "w") == [(3,), (4,), (5,)]
    push(db, (1, 26, 6))
    assert answer(db, "w") == [(3,), (4,), (5,), (6,)]
    refused = db.push("meters", [{"id": 1, "ts": at(1), "n": 9}]).refused
    assert [r.condition for r in refused] in (["out_of_order"], ["before_retention"])


def removed(db: Database, table_id: int, floor: int) -> bool:
    """Whether files are gone; they go only some time after the mark was committed."""
    db.housekeeper.tend(table_id)
    return db.log.floor(table_id) == floor
