"""Two tables, a writer that never stops, and standing questions of every kind: what the kill tests run.

Readings carry a number of their own (`seq`) and the sensor they are of (`who`), so that each can be found again.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from penstock.client.connection import Connection
from penstock.client.streams import Receipt
from penstock.errors import PenstockError
from penstock.streams.log.segments import list_segments
from tests.support.brute_force import History, JoinQuestion, LastRows, Question, Row, defined_at, expected
from tests.support.log_rows import log_heads
from tests.support.server_process import ServerProcess

SECOND = 1_000_000
SENSORS = 6
TABLES = {"probes": "", "meters": " WITH (time = 'valid', out_of_order = 'accept')"}
# Valid time begins here; everything is in the past, and each run the same.
ORIGIN = 1_700_000_000 * SECOND
RETRY = ("connection_failed", "not_ready", "too_busy", "engine_failed")


def create_tables(run: Callable[[str], object]) -> None:
    """`run` runs one statement."""
    for name, options in TABLES.items():
        run(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, site TEXT, floor INT, "
            f"reading STREAM (seq BIGINT, who INT, v DOUBLE)){options}"
        )
        rows = ", ".join(f"({i}, '{'north' if i % 2 else 'south'}', {i % 3}, NULL)" for i in range(SENSORS))
        run(f"INSERT INTO {name} VALUES {rows}")
    run("CREATE FUNCTION doubled(x DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$ return x * 2 $$")


def questions(table: str) -> list[Question]:
    """Selections with static and stream predicates, windows of every form."""
    shown = "SELECT seq, v, floor FROM " + table

    def ask(name: str, sql: str, **how: object) -> Question:
        return Question(f"{table}_{name}", table, f"{shown} {sql}", **how)  # type: ignore[arg-type]

    return [
        ask("all", "BEGIN (START - 10000 DAYS) END (NOW)", window=lambda now, start: (start - 864 * 10**12, now)),
        ask(
            "sliding",
            "WHERE v > 50 BEGIN (NOW - 8 SECONDS) END (NOW)",
            keeps=lambda r: r["v"] > 50,
            window=lambda now, start: (now - 8 * SECOND, now),
        ),
        ask(
            "lagging",
            "WHERE site = 'north' AND v < 80 BEGIN (NOW - 20 SECONDS) END (NOW - 5 SECONDS)",
            picks=lambda r: r["site"] == "north",
            keeps=lambda r: r["v"] < 80,
            window=lambda now, start: (now - 20 * SECOND, now - 5 * SECOND),
        ),
        ask(
            "landmark",
            "WHERE floor = 1",
            picks=lambda r: r["floor"] == 1,
            window=lambda now, start: (start, now),
        ),
        ask(
            "snapshot",
            "WHERE floor <> 2 AND v >= 10 BEGIN ('2023-11-14T22:13:21Z') END ('2023-11-14T22:13:25Z')",
            picks=lambda r: r["floor"] != 2,
            keeps=lambda r: r["v"] >= 10,
            window=lambda now, start: (ORIGIN + SECOND, ORIGIN + 5 * SECOND),
        ),
        ask("newest", "WHERE v > 20 BEGIN (LAST 200 ROWS)", keeps=lambda r: r["v"] > 20, window=LastRows(200)),
        ask(
            "newest_each",
            "WHERE site = 'south' BEGIN (LAST 5 ROWS PER SENSOR)",
            picks=lambda r: r["site"] == "south",
            window=LastRows(5, per_sensor=True),
        ),
        ask(
            "function",
            "WHERE doubled(v) > 150 BEGIN (NOW - 1 HOUR) END (NOW)",
            keeps=lambda r: r["v"] * 2 > 150,
            window=lambda now, start: (now - 3600 * SECOND, now),
        ),
        *join_questions(table),
    ]


def join_questions(table: str) -> list[Question]:
    """A table joined with itself, by key and without, and who stays without a partner."""
    within = 4_000

    def ask(name: str, sql: str, pairs: Callable[[Row, Row], bool], lonely: bool = False) -> JoinQuestion:
        text = f"{sql} BEGIN (NOW - 1 HOUR) END (NOW)"
        hour = lambda now, start: (now - 3600 * SECOND, now)  # noqa: E731
        return JoinQuestion(f"{table}_{name}", table, text, hour, within_us=within, pairs=pairs, lonely=lonely)

    from_both = f"SELECT a.seq, b.seq AS other FROM {table} a, {table} b DWINDOW(a,b) = {within // 1000} MS"
    return [
        ask(
            "pairs",
            f"{from_both} WHERE a.who = b.who AND a.seq <> b.seq",
            lambda a, b: a["who"] == b["who"] and a["seq"] != b["seq"],
        ),
        ask(
            "close",
            f"{from_both} WHERE abs(a.v - b.v) < 0.5 AND a.seq < b.seq",
            lambda a, b: abs(a["v"] - b["v"]) < 0.5 and a["seq"] < b["seq"],
        ),
        ask(
            "lonely",
            f"SELECT a.seq FROM {table} a WHERE NOT EXISTS (SELECT 1 FROM {table} b"
            f" WHERE b.who = a.who AND b.seq > a.seq DWINDOW(a,b) = {within // 1000} MS)",
            lambda a, b: a["who"] == b["who"] and b["seq"] > a["seq"],
            lonely=True,
        ),
    ]


def late_question(table: str, number: int) -> Question:
    """One that comes when there is history, and fills its window from it."""
    limit = 15 + 7 * (number % 10)
    return Question(
        f"{table}_late_{number}",
        table,
        f"SELECT seq, v, floor FROM {table} WHERE v > {limit} AND site = 'north' BEGIN (NOW - 1 HOUR) END (NOW)",
        window=lambda now, start: (now - 3600 * SECOND, now),
        picks=lambda r: r["site"] == "north",
        keeps=lambda r: r["v"] > limit,
    )


def reading(table: str, number: int, chance: random.Random) -> dict[str, object]:
    """Reading `number`, of some sensor. Those of meters carry their time; some are late, some much."""
    who = chance.randrange(SENSORS)
    made: dict[str, object] = {"id": who, "who": who, "seq": number, "v": round(chance.uniform(0, 100), 3)}
    if table == "meters":
        made["ts"] = _iso(ORIGIN + 500 * number - chance.choice((0, 0, 0, 1000, 2 * SECOND)))
    return made


@dataclass
class Sent:
    """What one table's sender knows: numbers that were acknowledged, and numbers it never heard back about."""

    acknowledged: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    position: int = 0


class Writer(threading.Thread):
    """Pushes to every table, with keys, through whatever happens to the server."""

    def __init__(self, url: str, seed: int, sent: dict[str, Sent], first: int, rows: int = 40, pause_s: float = 0.03):
        super().__init__(name="writer", daemon=True)
        self.sent = sent
        self.number = first
        self.problem: BaseException | None = None
        self._url = url
        self._seed = seed
        self._random = random.Random(seed)
        self._rows = rows
        self._pause_s = pause_s
        self._ending = threading.Event()

    def run(self) -> None:
        try:
            with Connection(self._url) as db:
                push = 0
                while not self._ending.wait(self._pause_s):
                    self._push(db, self._random.choice(list(TABLES)), f"{self._seed}-{push}")
                    push += 1
        except BaseException as problem:
            self.problem = problem

    def _push(self, db: Connection, table: str, key: str) -> None:
        sent = self.sent[table]
        rows = [self._next(table) for _ in range(self._random.randint(1, self._rows))]
        numbers = {int(r["seq"]) for r in rows}
        patient = self._random.random() < 0.9
        # Without the client's own pauses, which grow to seconds: a server that is back hears from its writer at once.
        send = partial(db.push, table, rows, idempotency_key=key, retry_for_s=0.0)
        try:
            receipt = persist(send, 150.0) if patient else send()
        except PenstockError as problem:
            if patient or problem.condition not in RETRY:
                raise
            sent.unknown |= numbers
            return
        self._check(receipt, len(rows), sent)
        sent.acknowledged |= numbers
        if self._random.random() < 0.1:
            again = persist(send, 150.0)
            assert (again.accepted, again.position) == (receipt.accepted, receipt.position), "a repeat was stored"

    def _check(self, receipt: Receipt, rows: int, sent: Sent) -> None:
        assert (receipt.accepted, receipt.refused) == (rows, ()), receipt
        assert receipt.position >= sent.position + rows, "a position was given twice"
        sent.position = receipt.position

    def _next(self, table: str) -> dict[str, object]:
        self.number += 1
        return reading(table, self.number, self._random)

    def end(self) -> None:
        """Stop after the push in progress; what went wrong in this thread goes wrong in the test."""
        self._ending.set()
        self.join(200)
        assert not self.is_alive(), "the writer got no answer"
        if self.problem is not None:
            raise self.problem


def _iso(moment_us: int) -> str:
    whole, part = divmod(moment_us, SECOND)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{part:06d}Z"


def persist(action: Callable[[], Any], timeout_s: float = 120.0) -> Any:
    """Repeat a call while the server or Spark comes back."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return action()
        except PenstockError as problem:
            if problem.condition not in RETRY or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def wait_for_readings(server: ServerProcess, sent: Mapping[str, Sent], count: int) -> None:
    """Until so many more readings are acknowledged."""

    def acknowledged() -> int:
        return sum(len(known.acknowledged) for known in sent.values())

    wanted = acknowledged() + count
    server.wait(lambda: acknowledged() >= wanted, 120, f"taking {count} readings")


def wait_until_caught_up(db: Connection, data: Path, timeout_s: float = 180.0) -> None:
    """Until a committed cycle covers everything that is in the log now."""
    heads = log_heads(data / "log")
    history = History(data)
    deadline = time.monotonic() + timeout_s
    while True:
        answer = persist(lambda: db.invoke("probes_all", limit=1))
        reached = history.record(answer.cycle).end
        if all(reached.data.get(t, 0) >= h for t, h in heads.items()) and not reached.filling:
            return
        assert time.monotonic() < deadline, f"{reached} does not reach {heads}: {db.health()}"
        time.sleep(0.1)


class Answers(Protocol):
    """A client's connection, or a database in this process."""

    def invoke(self, name: str) -> Any: ...


def check_answers(db: Answers, data: Path, asked: Sequence[Question]) -> None:
    """Every answer equals the brute-force one at the cycle that it says it stands for."""
    history = History(data)
    for question in asked:
        answer = persist(partial(db.invoke, question.name))
        got = Counter(tuple(row.values()) for row in answer.table.to_pylist())
        wanted = expected(question, history, answer.cycle)
        missing, extra = wanted - got, got - wanted
        assert not missing and not extra, (
            f"{question.name} at cycle {answer.cycle}: {missing.total()} rows missing, {extra.total()} too many "
            f"of {wanted.total()}; missing {sorted(missing)[:3]}, too many {sorted(extra)[:3]}"
        )


def check_nothing_lost_or_doubled(db: Connection, data: Path, sent: dict[str, Sent]) -> None:
    """What was acknowledged is there once, what was not is there at most once, and positions do not skip."""
    for table, known in sent.items():
        rows = persist(partial(db.sql, f"SELECT seq FROM {table}")).rows()
        stored = Counter(row["seq"] for row in rows)
        assert not [n for n, times in stored.items() if times > 1], f"doubled in {table}"
        assert not known.acknowledged - stored.keys(), f"lost from {table}"
        assert stored.keys() - known.acknowledged <= known.unknown, f"from nowhere in {table}"
        segments = list_segments(data / "log", defined_at(data, 2**60).tables[table]["id"])
        assert segments[0].first == 0 and segments[-1].end == stored.total()
