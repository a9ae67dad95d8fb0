"""Random histories for mining functions: late rows, gaps, NULL, NaN and restarts, with all rows remembered."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tests.oracle import mining
from tests.oracle.mining import Row, SymbolRow
from tests.support.pipe import Pipe

TABLE = (
    "CREATE TABLE probes (id INT PRIMARY KEY, place TEXT, reading STREAM (value DOUBLE, vector ARRAY<DOUBLE>, counts ARRAY<INT>,"
    " word TEXT, flag BOOLEAN, grade BIGINT, lane INT))"
    " WITH (time = 'valid', out_of_order = 'accept')"
)
PLACES = {1: "north", 2: "south", 3: "west"}
SENSORS = f"INSERT INTO probes VALUES {', '.join(f'({i}, {p!r}, NULL)' for i, p in PLACES.items())}"
RESTART = 10  # the cycle of a restart that every story has
READINGS = pa.schema(
    [
        ("id", pa.int32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("value", pa.float64()),
        ("vector", pa.list_(pa.float64())),
        ("counts", pa.list_(pa.int32())),
        ("word", pa.string()),
        ("flag", pa.bool_()),
        ("grade", pa.int64()),
        ("lane", pa.int32()),
    ]
)


class Story:
    """A database that gets random readings, and all that was sent."""

    def __init__(self, pipe: Pipe, seed: int, most: int = 8) -> None:
        """`most`: readings of a cycle."""
        self.pipe, self.chance, self.most = pipe, random.Random(seed), most
        self.rows: list[Row] = []
        self.sent: list[pa.Table] = []
        self.vectors: list[tuple[Row, list[float | None] | None, list[int | None] | None]] = []
        self.words: list[tuple[mining.SymbolRow, bool | None, int | None]] = []
        self.of_words = random.Random(seed)
        self.now_us = self.restarts = 0
        pipe.db.execute(TABLE)
        pipe.db.execute(SENSORS)

    def cycles(self, count: int) -> Iterator[int]:
        """The numbers of committed cycles, each with a few more readings than the one before. One of them at least follows a restart."""
        for number in range(count):
            self.pipe.clock.advance(self.chance.choice([200_000, 900_000, 2_000_000, 6_000_000]))
            if self.chance.random() < 0.9:
                self.push(self.chance.randint(1, self.most))
            self.pipe.engine.drain()
            if self.chance.random() < 0.06 or number == min(RESTART, count // 2):
                self.pipe.restart()
                self.pipe.engine.drain()
                self.restarts += 1
            if self.rows:
                yield self.pipe.db.standing.store.cycle
        assert self.restarts

    def push(self, count: int) -> None:
        sent = []
        for _ in range(count):
            late = self.chance.choice([0, 0, 0, 0, 1_000_000, 7_000_000, self.chance.randint(0, 90_000_000)])
            ts = (self.pipe.clock.now_us() - late) // 1000 * 1000
            sensor = self.chance.choice([1, 1, 1, 2, 2, 3])
            value = self.chance.choice([None, math.nan, math.inf, *[round(self.chance.gauss(20, 5), 3)] * 12])
            vector = [
                self.chance.random(),
                self.chance.choice([None, 2.5, 7.0, 2.5, 7.0, math.nan, math.inf]),
                self.chance.gauss(0, 1e6),
            ]
            vector = self.chance.choice([None, vector])
            counts = self.chance.choice([None, [1, self.chance.randint(0, 9), None, 4]])
            sent.append(
                {"id": sensor, "value": value, "vector": vector, "counts": counts, "ts": ts, **self._symbols(ts)}
            )
        self.sent.append(pa.Table.from_pylist(sent, READINGS))
        receipt = self.pipe.db.push("probes", self.sent[-1])
        assert not receipt.refused, receipt
        for row in sent:
            kept = Row(row["ts"], len(self.rows), PLACES[row["id"]], row["value"])
            self.rows.append(kept)
            word = SymbolRow(kept.ts, kept.position, kept.group, row["word"], row["lane"])
            self.words.append((word, row["flag"], row["grade"]))
            self.vectors.append((kept, row["vector"], row["counts"]))
            self.now_us = max(self.now_us, kept.ts)

    def _symbols(self, ts: int) -> dict[str, Any]:
        """Mostly in turns of ten seconds, so that there are periods and patterns."""
        chance, usual = self.of_words, "ab"[ts // 1_000_000 % 10 > 4]
        word = chance.choice([usual, usual, usual, "a", "b", "ç", None])
        grade = chance.choice([None, 2**62, 7, 7, 10])
        return {
            "word": word,
            "flag": chance.choice([word == "a", None]),
            "grade": grade,
            "lane": chance.choice([1, 2, 2, None]),
        }

    def of(self, place: str) -> list[Row]:
        return [row for row in self.rows if row.group == place]

    def answer(self, name: str, as_of: int | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.pipe.db.standing.invoke(name, as_of).table.to_pylist()
        return found


def same(found: Any, truth: Any) -> bool:
    """Whether two values are the same: floats to 1e-9, and NaN is NaN."""
    if isinstance(truth, list):
        return isinstance(found, list) and len(found) == len(truth) and all(map(same, found, truth))
    if isinstance(truth, dict):
        return isinstance(found, dict) and found.keys() == truth.keys() and all(same(found[k], truth[k]) for k in truth)
    if isinstance(truth, float) and isinstance(found, float):
        return math.isclose(found, truth, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(found) and math.isnan(truth))
    return bool(found == truth)
