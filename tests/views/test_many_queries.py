"""Some hundred queries that come, change and go while readings flow, with the real thresholds: every answer is right."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.cycle.cut import Limits
from penstock.views.standing_queries import Intervals
from tests.support.pipe import BEGAN_US, Pipe

MS = 1000


class Churn:
    """A stream with times of its own, queries over it, and what numpy says they answer."""

    def __init__(self, pipe: Pipe, seed: int) -> None:
        self.pipe = pipe
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.values = np.empty(0, np.int64)
        self.times = np.empty(0, np.int64)
        self.queries: dict[str, tuple[int, int, int]] = {}  # low, high, window in milliseconds
        self.made = 0
        pipe.db.execute(
            "CREATE TABLE readings (id INT PRIMARY KEY, reading STREAM (value INT))"
            " WITH (time = 'valid', out_of_order = 'accept', max_ahead = '1000 DAYS')"
        )
        pipe.db.execute("INSERT INTO readings VALUES (1, NULL)")

    def push(self, rows: int) -> None:
        newest = int(self.times.max(initial=BEGAN_US))
        times = newest + self.numbers.integers(-30 * MS, 100 * MS, rows)
        values = self.numbers.integers(0, 256, rows)
        stamps = pa.array(times).cast(pa.timestamp("us", tz="UTC"))
        ids = pa.array(np.ones(rows, np.int32))
        receipt = self.pipe.db.push("readings", pa.table({"id": ids, "value": values.astype(np.int32), "ts": stamps}))
        assert receipt.accepted == rows
        self.values, self.times = np.append(self.values, values), np.append(self.times, times)

    def register(self, count: int) -> None:
        made = []
        for _ in range(count):
            low = self.random.randrange(256)
            high = low + self.random.choice([1, 2, 40, 200, 256])
            window = self.random.choice([1, 20, 100, 100, 400, 5000])
            name = f"q{self.made}"
            self.made += 1
            self.queries[name] = (low, high, window)
            where = f"value >= {low} AND value < {high}"
            sql = f"SELECT value, ts FROM readings WHERE {where} BEGIN (NOW - {window} MS) END (NOW)"
            made.append({"name": name, "sql": sql, "strategy": self.random.choice([None, None, "complete", "none"])})
        self.pipe.db.register(made)

    def disturb(self) -> None:
        for name in self.random.sample(sorted(self.queries), 5):
            low, high, _ = self.queries[name]
            window = self.random.choice([1, 50, 100, 1000])
            self.pipe.db.execute(f"ALTER QUERY {name} SET BEGIN (NOW - {window} MS)")
            self.queries[name] = (low, high, window)
        gone = self.random.sample(sorted(self.queries), 5)
        self.pipe.db.execute(f"DROP QUERY {', '.join(gone)}")
        for name in gone:
            del self.queries[name]

    def check(self, name: str) -> None:
        low, high, window = self.queries[name]
        now = int(self.times.max())
        inside = (self.times >= now - window * MS) & (self.values >= low) & (self.values < high)
        table: Any = self.pipe.db.standing.invoke(name).table
        found = in_order(table["value"].to_numpy(), table["ts"].cast(pa.int64()).to_numpy())
        assert np.array_equal(found, in_order(self.values[inside], self.times[inside])), name


def in_order(values: Any, times: Any) -> Any:
    """Both as the rows of one array, in the order of values and then of times."""
    return np.stack([values, times])[:, np.lexsort((times, values))]


@pytest.mark.parametrize("seed", range(3) if os.environ.get("PENSTOCK_SOAK") else (2,))
def test_churn_changes_nobody_elses_answer(pipes: Callable[..., Pipe], seed: int) -> None:
    churn = Churn(pipes(intervals=Intervals(snapshot_cycles=11, trim_cycles=4)), seed)
    pipe = churn.pipe
    churn.register(150)
    sheets = 0
    for step in range(24):
        churn.push(churn.random.choice([3, 700, 2000]))
        if step % 2:
            churn.disturb()
            churn.register(10)
        while pipe.engine.cycle(Limits(100_000, 900, history_rows=3000)) is not None:
            sheets += sum(len(shelf.sheets) for shelf in pipe.db.standing.store.matches.stores.values())
            if not pipe.db.standing.store.offset.filling:  # type: ignore[union-attr]
                break
        if churn.random.random() < 0.15:
            pipe.restart()
        for name in churn.random.sample(sorted(churn.queries), 25):
            churn.check(name)
    for name in churn.queries:
        churn.check(name)
    assert sheets
