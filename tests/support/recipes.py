"""The recipes of docs/howto/statistics.md with readings to try them on, and the answers that were worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.database.database import Database
from penstock.sql.parse import parse_script
from penstock.sql.statements import CreateQuery, Statement, Subscribe
from tests.test_docs import ROOT, blocks_of

PAGE = ROOT / "docs" / "howto" / "statistics.md"
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def statements() -> Iterator[Statement]:
    for block in blocks_of(PAGE, "sql"):
        yield from (s for s in parse_script(block.text) if not isinstance(s, Subscribe))


def recipes() -> dict[str, str]:
    """The page's queries by name."""
    return {s.name: s.source.sql for s in statements() if isinstance(s, CreateQuery)}


def set_up(db: Database) -> None:
    """The page's tables, without its queries."""
    for statement in statements():
        if not isinstance(statement, CreateQuery):
            db.execute(statement.source.sql)


def push(db: Database) -> None:
    for table, rows in READINGS.items():
        receipt = db.push(table, [{**row, "ts": row["ts"].isoformat()} for row in rows])
        assert receipt.accepted == len(rows), receipt


def packet(seconds: float, link: str, number: int, length: int, source: str = "a", target: str = "b") -> dict[str, Any]:
    ts = NOON + timedelta(seconds=seconds)
    return {"link": link, "ts": ts, "id": number, "source": source, "target": target, "length": length}


READINGS: dict[str, list[dict[str, Any]]] = {
    # 100 bytes a second are 6 000 a minute: the second minute is over nine tenths of that.
    # Packets 1 and 3 pass the customer's link first; 2 comes the other way round, 4 after more than half a minute.
    "links": [
        packet(0, "customer", 1, 300),
        packet(1, "backbone", 1, 300),
        packet(2, "backbone", 2, 1000),
        packet(3, "customer", 2, 100),
        packet(61, "customer", 3, 100),
        packet(62, "backbone", 3, 700, "a", "c"),
        packet(70, "backbone", 5, 5000, "d", "e"),
        packet(71, "customer", 4, 200),
        packet(110, "backbone", 4, 1000),
        packet(110, "customer", 6, 50),  # NOW of a join is the smaller of both
    ],
    "loops": [
        {"loop": loop, "ts": NOON + timedelta(seconds=loop), "speed": speed}
        for loop, speed in ((1, 30.0), (2, 50.0), (3, 100.0), (4, 90.0))
    ],
    # The fridge with vaccines is warm for two readings, then cold, then warm again; lunch is warm twice.
    "fridges": sorted(
        [
            {"fridge": "vaccines", "ts": NOON + hour * HOUR, "celsius": celsius}
            for hour, celsius in enumerate((5.0, 9.0, 10.0, 4.0, 1.0, 5.0, 11.0))
        ]
        + [{"fridge": "lunch", "ts": NOON + hour * HOUR, "celsius": celsius} for hour, celsius in ((0, 9.0), (6, 9.5))],
        key=lambda row: row["ts"],
    ),
    "meters": [
        {"meter": meter, "ts": NOON + timedelta(hours=hours), "kw": kw}
        for hours, meter, kw in ((0, "m1", 1.0), (0, "m2", 3.0), (1, "m3", 5.0), (23, "m1", 8.0), (24, "m2", 6.0))
    ],
    "stocks": [
        {"stock": stock, "ts": NOON + timedelta(seconds=seconds), "price": price}
        for seconds, stock, price in ((0, "ACME", 10.0), (1, "ACME", 12.0), (2, "INIT", 40.0), (60, "ACME", 20.0))
    ],
}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "load_per_minute": [
        {"link": "backbone", "window_start": NOON, "bytes": 1300, "packets": 2},
        {"link": "backbone", "window_start": NOON + MINUTE, "bytes": 6700, "packets": 3},
        {"link": "customer", "window_start": NOON, "bytes": 400, "packets": 2},
        {"link": "customer", "window_start": NOON + MINUTE, "bytes": 350, "packets": 3},
    ],
    "overload": [{"link": "backbone", "window_start": NOON + MINUTE, "used": 6700 / 6000}],
    "seen_on_both": [{"id": 1, "length": 300}, {"id": 3, "length": 700}],
    "share_of_customer": [{"share": 1000 / 8000}],
    "heavy_pairs": [{"source": "d", "target": "e", "bytes": 5000}],
    # All segments: (30 + 50 + 100 + 90) / 4 = 67.5, of which 0.8 are 54.
    "slow_at_incidents": [{"segment": 10, "what": "roadworks", "speed": 40.0}],
    "faster_than_average": [
        {"segment": 11, "cars": 1, "mean": 100.0},
        {"segment": 12, "cars": 1, "mean": 90.0},
    ],
    # Each loop has seen one car, which is its fastest.
    "near_the_loops_peak": [{"segment": 10, "cars": 2}],
    "my_speed": [{"speed": 60.0}],  # segments 10 and 11
    "unreliable": [{"fridge": "vaccines", "times": 4, "coldest": 1.0, "warmest": 11.0}],
    "went_out": [{"fridge": "vaccines", "times": 3}],
    "rolling": [{"fridge": "lunch", "mean": 9.5}, {"fridge": "vaccines", "mean": (4.0 + 1.0 + 5.0 + 11.0) / 4}],
    "rolling_hourly": [
        *(
            {"fridge": "lunch", "window_start": NOON + n * HOUR, "window_end": NOON + (n + 3) * HOUR, "mean": mean}
            for n, mean in ((-2, 9.0), (-1, 9.0), (0, 9.0), (4, 9.5), (5, 9.5), (6, 9.5))
        ),
        *(
            {"fridge": "vaccines", "window_start": NOON + n * HOUR, "window_end": NOON + (n + 3) * HOUR, "mean": mean}
            for n, mean in (
                (-2, 5.0),
                (-1, 7.0),
                (0, 8.0),
                (1, 23 / 3),
                (2, 5.0),
                (3, 10 / 3),
                (4, 17 / 3),
                (5, 8.0),
                (6, 11.0),
            )
        ),
    ],
    "power_per_day": [
        {"hall": "east", "window_start": NOON - 12 * HOUR, "mean": 2.0, "peak": 3.0},
        {"hall": "east", "window_start": NOON + 12 * HOUR, "mean": 7.0, "peak": 8.0},
        {"hall": "west", "window_start": NOON - 12 * HOUR, "mean": 5.0, "peak": 5.0},
    ],
    "stock_index": [{"level": (3 * 20.0 + 40.0) / 4}],
    "index_per_minute": [
        {"window_start": NOON, "level": (3 * 10.0 + 3 * 12.0 + 40.0) / 7},
        {"window_start": NOON + MINUTE, "level": 20.0},
    ],
    # The line from 12 at 1 s to 20 at 60 s, at 2 s.
    "apart": [{"ts": NOON + timedelta(seconds=2), "init": 40.0, "acme": 12.0, "difference": 28.0 - 8 / 59}],
    "highest": [
        {"stock": "ACME", "highest": 20.0, "lowest": 10.0},
        {"stock": "INIT", "highest": 40.0, "lowest": 40.0},
    ],
}
IN_THE_CYCLE = {
    "load_per_minute",
    "overload",
    "heavy_pairs",
    "seen_on_both",
    "faster_than_average",
    "near_the_loops_peak",
    "slow_at_incidents",
    "my_speed",
    "unreliable",
    "rolling",
    "rolling_hourly",
    "index_per_minute",
    "apart",
    "highest",
    "power_per_day",
}
"""Recipes that need no Spark job."""


def check(name: str, rows: list[dict[str, Any]]) -> None:
    wanted = [
        {n: pytest.approx(v, rel=1e-12) if isinstance(v, float) else v for n, v in row.items()} for row in ANSWERS[name]
    ]
    assert sorted(rows, key=lambda row: [str(v) for v in row.values()]) == wanted, name
