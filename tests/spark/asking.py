"""Small words for tests: rows of a statement, a standing answer that includes everything pushed before."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from penstock.database.database import Database

Rows = list[tuple[Any, ...]]


def rows_of(table: Any) -> Rows:
    return [tuple(row.values()) for row in table.to_pylist()]


def ask(db: Database, sql: str, params: list[Any] | None = None) -> Rows:
    """A one-shot statement's rows, in the order they came."""
    return rows_of(db.execute(sql, params).table)


def answer(db: Database, name: str, as_of: int | None = None) -> Rows:
    """A standing query's rows, sorted, after everything that was written before this call."""
    if as_of is None:
        db.wait_for_own_writes()
    return sorted(rows_of(db.invoke(name, as_of).table))


def wait_for_the_fill(db: Database, name: str) -> None:
    """Until a changed window holds: before that, the query answers as it did."""
    db.wait_for_own_writes()
    eventually(lambda: db.query(name)["state"] == "RUNNING")


def eventually(condition: Callable[[], bool], timeout_s: float = 240.0, pause_s: float = 0.05) -> None:
    """`pause_s`: between two looks, longer where a look costs the server much."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(pause_s)


def at(seconds: float) -> str:
    """A time on the morning of the examples: that many seconds after ten o'clock."""
    whole, part = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"2026-01-05T10:{whole // 60:02d}:{whole % 60:02d}.{part:06d}Z"


METERS = "CREATE TABLE meters (id INT PRIMARY KEY, site TEXT, reading STREAM (n INT)) WITH (time = 'valid')"
METERS_ACCEPTING = METERS[:-1] + ", out_of_order = 'accept')"


def make_meters(db: Database, accept: bool = False) -> None:
    """Two meters, at the north and the south gate, with times of their own."""
    db.execute(METERS_ACCEPTING if accept else METERS)
    db.execute("INSERT INTO meters VALUES (1, 'north', NULL), (2, 'south', NULL)")


def push(db: Database, *readings: tuple[int, float, int]) -> None:
    """(meter, seconds after ten, n): each must be accepted."""
    receipt = db.push("meters", [{"id": m, "ts": at(s), "n": n} for m, s, n in readings])
    assert receipt.accepted == len(readings), receipt
