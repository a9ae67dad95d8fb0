"""Sessions, ranked and lagged rows, unions, FULL JOIN, landmarks, an own aggregate and a query of class low, on a server that is
killed, in `make soak` again and again: after each restart it answers as one that was never disturbed, and each final row is delivered once.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from penstock.client import Connection
from penstock.clock import SECOND, format_timestamp
from penstock.errors import PenstockError
from tests.operators.aggregate.own.bodies import ENERGY
from tests.sinks.world import Receiver
from tests.spark.asking import eventually
from tests.support.examples import SOAK
from tests.support.folder_fixture import plain_rows
from tests.support.pipe import BEGAN_US, Pipe
from tests.support.server_process import ServerProcess

OPTIONS = "WITH (time = 'valid', out_of_order = 'accept', lateness = '5 SECONDS', idle = '1 DAY')"
SENSORS = "VALUES (1, 'north', NULL), (2, 'south', NULL), (3, 'west', NULL)"
TABLES = [
    statement
    for table in ("probes", "doors")
    for statement in (
        f"CREATE TABLE {table} (id INT PRIMARY KEY, place TEXT, reading STREAM (value DOUBLE)) {OPTIONS}",
        f"INSERT INTO {table} {SENSORS}",
    )
]
WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"
# The first ones have final rows.
FINAL = {
    "sessions": f"SELECT id, window_start, window_end, COUNT(*) AS n FROM probes GROUP BY id, SESSION(3 SECONDS) {WINDOW}",
    "steps": "SELECT id, ts, value, LAG(value) OVER (PARTITION BY id ORDER BY ts) AS before FROM probes"
    " BEGIN ('2020-01-01') END (NOW)",
    "both": f"SELECT id, ts, value FROM probes WHERE value > 5 {WINDOW} UNION ALL SELECT id, ts, value FROM doors {WINDOW}",
    "paired": "SELECT a.id, a.value, b.id AS door, b.value AS other FROM probes a FULL JOIN doors b ON a.id = b.id AND b.value > 2"
    f" WINDOW(a, b) = 2 SECONDS {WINDOW}",
    "used": f"SELECT place, window_end, energy(value) AS e FROM probes GROUP BY place, TUMBLE(10 SECONDS) {WINDOW}",
    "slow": f"SELECT id, ts, value FROM probes WHERE value > 3 {WINDOW}",
}
QUESTIONS = {
    **FINAL,
    "best": f"SELECT id, value FROM probes QUALIFY ROW_NUMBER() OVER (PARTITION BY place ORDER BY value DESC) <= 2 {WINDOW}",
    "shifts": f"SELECT COUNT(*) AS n, SUM(value) AS total FROM probes GROUP BY LANDMARK (value = 9) {WINDOW}",
}
SUBSCRIBED = ("sessions", "paired")
LIVES = 8 if SOAK else 2  # a start takes ten seconds of a processor; tests without Spark restart many times
PUSHES = 20 if SOAK else 30  # in each life

Rows = dict[str, list[dict[str, Any]]]  # by query


def pushes(seed: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Readings second by second, some of them late, with pauses that end sessions."""
    chance, now_s = random.Random(seed), 0
    while True:
        for table in ("probes", "doors"):
            rows = []
            for _ in range(chance.randint(1, 4)):
                late_s = chance.choice((0, 0, 0, 1, 4))
                at_us = BEGAN_US + max(0, now_s - late_s) * SECOND + chance.randrange(1000) * 1000
                rows.append({"id": chance.randint(1, 3), "ts": format_timestamp(at_us), "value": chance.randrange(10)})
            yield table, rows
        now_s += chance.choice((1, 1, 1, 5))


def define(run: Callable[[str], object], url: str) -> None:
    for statement in (*TABLES, ENERGY):
        run(statement)
    for name, question in QUESTIONS.items():
        run(f"CREATE QUERY {name} {'WITH (priority = low) ' if name == 'slow' else ''}AS {question}")
    for name in FINAL:
        run(f"CREATE SINK {name}_out FOR QUERY {name} TO webhook (url '{url}', rows 'final')")


class Twin:
    """The same readings in a database that is never disturbed: what is to be answered after each life."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self.receiver = Receiver()
        pipe.clock.advance(3600 * SECOND)  # no reading is ahead of the clock
        define(pipe.db.execute, self.receiver.url)

    def push(self, readings: list[tuple[str, list[dict[str, Any]]]]) -> Rows:
        for table, rows in readings:
            assert not self._pipe.db.push(table, rows).refused
        for _ in range(3):
            self._pipe.engine.drain()
        return {name: plain_rows(self._pipe.db.invoke(name).table.to_pylist()) for name in QUESTIONS}

    def final(self) -> dict[str, Counter[str]]:
        """The final rows of each query, as a sink sends them."""
        count = {name: self._pipe.db.execute(f"SELECT * FROM {name} FINAL").table.num_rows for name in FINAL}
        eventually(lambda: {name: rows.total() for name, rows in taken(self.receiver).items()} == count, 60)
        return taken(self.receiver)


class FinalRows:
    """What a subscriber of a query's final rows is told, over all lives of the server."""

    def __init__(self, server: ServerProcess, name: str) -> None:
        self._rows: list[str] = []
        self._server, self._name = server, name
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        with self._server.connect() as connection:
            try:
                for change in connection.subscribe(self._name, final=True, retry_for_s=300):
                    self._rows += map(str, change.rows)
            except PenstockError:
                pass  # the query was dropped

    @property
    def told(self) -> Counter[str]:
        return Counter(list(self._rows))

    def end(self) -> None:
        """After the query was dropped."""
        self._thread.join(60)
        assert not self._thread.is_alive()


def answers(connection: Connection, as_of: int | None = None) -> tuple[int, Rows]:
    """All answers at one cycle; that of class low at its own one, which may be an earlier cycle."""
    cycle = connection.invoke("shifts", as_of=as_of).cycle
    cycles = {name: as_of if name == "slow" else cycle for name in QUESTIONS}
    return cycle, {name: plain_rows(connection.invoke(name, as_of=at).rows()) for name, at in cycles.items()}


def wait_until(connection: Connection, expected: Rows) -> None:
    """Until all that was pushed is in the answers; then they are these."""
    last = Rows()

    def are_these() -> bool:
        nonlocal last
        with suppress(PenstockError):  # before the first answer
            last = answers(connection)[1]
        return last == expected

    with suppress(AssertionError):
        eventually(are_these, 60, pause_s=0.25)  # a look reads every answer
    assert last == expected


def taken(receiver: Receiver) -> dict[str, Counter[str]]:
    """The rows that a receiver took, by query; repeats of a key left out, as a careful receiver would."""
    seen = {headers["Idempotency-Key"]: json.loads(body) for headers, body in list(receiver.taken)}
    found = {name: Counter[str]() for name in FINAL}
    for body in seen.values():
        found[body["query"]].update(map(str, body["rows"]))
    return found


def check_asked_once(connection: Connection, expected: Rows) -> None:
    """The same questions, asked once of the whole log."""
    for name, question in QUESTIONS.items():
        assert plain_rows(connection.sql(question).rows()) == expected[name], name


def check_lives(server: ServerProcess, twin: Twin, receiver: Receiver, seed: int) -> None:
    story, expected = pushes(seed), Rows()
    with server.connect() as connection:
        define(connection.sql, receiver.url)
        wait_until(connection, twin.push([]))  # no row is final before it is subscribed to
    told = {name: FinalRows(server, name) for name in SUBSCRIBED}
    for life in range(LIVES):
        with server.connect() as connection:
            cycle, before = answers(connection)
            readings = [next(story) for _ in range(PUSHES)]
            for table, rows in readings:
                assert not connection.push(table, rows).refused
        expected = twin.push(readings)
        if life < LIVES - 1:
            server.kill("server")  # what was pushed last is in the log, and in no answer yet, or in some
            server.start()
        with server.connect() as connection:
            wait_until(connection, expected)
            assert answers(connection, cycle) == (cycle, before)
    with server.connect() as connection:
        check_asked_once(connection, expected)
        final = twin.final()
        eventually(lambda: all(taken(receiver)[name] >= final[name] for name in FINAL), 60)
        eventually(lambda: all(rows.told >= final[name] for name, rows in told.items()), 60)
        for name in QUESTIONS:
            connection.sql(f"DROP QUERY {name} CASCADE")
    assert taken(receiver) == final and all(final.values())
    for name, rows in told.items():
        rows.end()
        assert rows.told == final[name], name


@pytest.mark.timeout(600)
def test_a_server_that_is_killed_answers_every_operator_as_one_that_was_not(
    cleared: ServerProcess, pipes: Callable[..., Pipe]
) -> None:
    twin, receiver = Twin(pipes()), Receiver()
    check_lives(cleared, twin, receiver, 7)
    receiver.close()
    twin.receiver.close()
