"""A query that is dropped, replaced, changed or paused while somebody asks it: an answer or a named error, never a surprise."""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from tests.support.interrupting import Interrupting
from tests.support.pipe import BEGAN_US, Pipe

MINUTE = "BEGIN (NOW - 1 MINUTE) END (NOW)"
JOIN = "SELECT a.n, b.n AS m FROM a, b WINDOW = 2 SECONDS WHERE a.id = b.id"
KINDS = {
    "selection": f"SELECT n, v FROM a WHERE v > 1 {MINUTE}",
    "newest": "SELECT n, v FROM a BEGIN (LAST 3 ROWS)",
    "lasting": f"SELECT n FROM a WHERE v > 1 FOR 1 SECOND {MINUTE}",
    "aggregate": f"SELECT id, COUNT(*) AS c, AVG(v) AS mean FROM a GROUP BY id {MINUTE}",
    "approximate": f"SELECT APPROX_DISTINCT(v, 0.1) AS d FROM a {MINUTE}",
    "latch": "SELECT id, MAX(v) AS top FROM a GROUP BY id, LATCH",
    "of a query": f"SELECT SUM(v) AS s FROM below {MINUTE}",
    "join": f"{JOIN} {MINUTE}",
    "left join": f"SELECT a.n, b.n AS m FROM a LEFT JOIN b ON a.id = b.id WINDOW = 2 SECONDS {MINUTE}",
    "join aggregate": f"SELECT COUNT(*) AS c FROM a, b WINDOW = 2 SECONDS WHERE a.id = b.id {MINUTE}",
    "of a join": f"SELECT COUNT(*) AS c FROM joined {MINUTE}",
    "resample": f"SELECT a.n, RESAMPLE(b.v, 5 SECONDS, LINEAR) AS v FROM a, b WHERE a.id = b.id {MINUTE}",
    "rolled up": "SELECT COUNT(*) AS c FROM a BEGIN (NOW - 1 DAY) END (NOW)",
}
OPERATIONS = (
    "invoke some cycle time select on_demand log subscribe changes resumed explain analyze describe list sensors"
    " alter resume comment read drop backup push insert"
).split()
DISTURBED = {
    "dropped": "DROP QUERY q",
    "dropped with its table": "DROP TABLE a CASCADE",
    "replaced by a selection": f"DROP QUERY q; CREATE QUERY q AS SELECT n FROM b {MINUTE}",
    "replaced by an aggregate": f"DROP QUERY q; CREATE QUERY q AS SELECT COUNT(*) AS c FROM b {MINUTE}",
    "paused": "ALTER QUERY q PAUSE",
    "changed": "ALTER QUERY q SET BEGIN (NOW - 10 SECONDS)",
}


# What once ended in a surprise.
FOUND = [
    ("left join", "replaced by a selection", "on_demand", 3),
]


def at(second: int) -> str:
    return format_timestamp(BEGAN_US - 60_000_000 + second * 1_000_000)


def operations(pipe: Pipe, place: Path) -> dict[str, Callable[[], Any]]:
    db = pipe.db

    def follow(changes: bool, back: int | None) -> None:
        cycle = db.standing.store.cycle
        subscription = db.subscribe("q", None if back is None else cycle - back, changes)
        try:
            for _ in range(3):
                subscription.next(0)
                if not interrupted_lock(pipe):
                    push(pipe, 20)
        finally:
            subscription.close()

    return {
        "invoke": lambda: db.invoke("q"),
        "some": lambda: db.invoke("q", limit=1),
        "cycle": lambda: db.invoke("q", db.standing.store.cycle - 1),
        "time": lambda: db.invoke("q", at(8)),
        "select": lambda: db.execute("SELECT * FROM q"),
        "on_demand": lambda: db.execute("SELECT COUNT(*) AS c FROM q"),
        "log": lambda: db.execute(f"SELECT AVG(v, 5 SECONDS) AS m FROM a {MINUTE}"),
        "subscribe": lambda: follow(False, None),
        "changes": lambda: follow(True, None),
        "resumed": lambda: follow(False, 1),
        "explain": lambda: db.execute("EXPLAIN q"),
        "analyze": lambda: db.execute("EXPLAIN ANALYZE q"),
        "describe": lambda: db.query("q"),
        "list": lambda: [db.queries(), db.execute("SHOW QUERIES"), db.execute("SHOW STREAMS"), db.costliest(5)],
        "sensors": lambda: [db.sensors("a"), db.status(), db.execute("SHOW SENSORS")],
        "alter": lambda: db.execute("ALTER QUERY q SET BEGIN (NOW - 5 SECONDS)"),
        "resume": lambda: db.execute("ALTER QUERY q PAUSE; ALTER QUERY q RESUME"),
        "comment": lambda: db.execute("COMMENT ON QUERY q IS 'x'"),
        "read": lambda: db.register([("r", f"SELECT COUNT(*) AS c FROM q {MINUTE}")]),
        "drop": lambda: db.execute("DROP QUERY q"),
        "backup": lambda: db.backup(place / f"copy{random.random()}"),
        "push": lambda: push(pipe, 15),
        "insert": lambda: db.execute("INSERT INTO a VALUES (9, NULL)"),
    }


def interrupted_lock(pipe: Pipe) -> bool:
    return bool(pipe.db.standing._lock._interrupting.depth)  # type: ignore[attr-defined]


def push(pipe: Pipe, second: int) -> None:
    for table in "ab":
        pipe.db.push(table, [{"id": i % 2, "n": i, "v": float(i), "ts": at(second + i)} for i in range(4)])
    pipe.engine.drain()


def build(pipe: Pipe) -> None:
    for table in "ab":
        if table not in pipe.db.catalog.state.tables:
            options = "WITH (time = 'valid', out_of_order = 'accept', retention = '10 HOURS')"
            pipe.db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (n INT, v DOUBLE)) {options}")
            pipe.db.execute(f"INSERT INTO {table} VALUES (0, NULL), (1, NULL)")
    if "kept" not in pipe.db.catalog.state.rollups:
        pipe.db.execute("CREATE ROLLUP kept ON a AS SELECT COUNT(*) EVERY 1 MINUTE")
    pipe.db.execute(f"CREATE QUERY IF NOT EXISTS below AS {KINDS['selection']}")
    pipe.db.execute(f"CREATE QUERY IF NOT EXISTS joined AS {KINDS['join']}")


def interrupt(pipe: Pipe, interrupting: Interrupting, place: Path, kind: str, how: str, what: str, moment: int) -> bool:
    """Whether the operation was still under way at that moment."""
    build(pipe)
    pipe.db.execute("DROP QUERY IF EXISTS r, q")
    pipe.db.execute(f"CREATE QUERY q AS {KINDS[kind]}")
    pipe.engine.drain()
    push(pipe, 0)
    push(pipe, 6)
    operation = operations(pipe, place)[what]
    interrupting.at(moment, DISTURBED[how])
    try:
        operation()
    except PenstockError as refused:
        assert refused.condition not in ("internal_error", "corrupt_segment"), (
            kind,
            how,
            what,
            moment,
            refused.message,
        )
    return not interrupting.missed()


@pytest.fixture(autouse=True)
def no_patience(pipe: Pipe) -> None:
    """Cycles come when a test says so: no operation has to wait for one."""
    pipe.set_intervals(own_writes_s=0.0, ready_s=0.0)


def interruptions(count: int, seed: int) -> list[tuple[str, str, str, int]]:
    """Some of the thousands of ways in which one can come between another's steps."""
    chance = random.Random(seed)
    return [
        (chance.choice(list(KINDS)), chance.choice(list(DISTURBED)), chance.choice(OPERATIONS), chance.randint(1, 14))
        for _ in range(count)
    ]


def test_whoever_is_interrupted_gets_an_answer_or_a_named_error(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    interrupting = Interrupting(pipe, monkeypatch)
    seed = int(os.environ.get("PENSTOCK_SEED", "1"))
    troubles: list[str] = []
    count = int(os.environ.get("PENSTOCK_INTERRUPTIONS", "8"))
    for kind, how, what, moment in [*FOUND, *interruptions(count, seed)]:
        try:
            interrupt(pipe, interrupting, tmp_path, kind, how, what, moment)
        except Exception as problem:
            interrupting.missed()
            trace = "".join(traceback.format_exception(problem)[-6:])
            troubles.append(f"{kind}, {how}, {what} at {moment}: {trace}")
            print(troubles[-1], flush=True)
    assert not troubles, (seed, "\n".join(troubles))
