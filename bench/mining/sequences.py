"""FREQUENT_SEQUENCES: a planted sequence is found, and with gaps of any length the counts are those of prefixspan. Asked in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from bench.local_database import local_database
from bench.mining import Figures
from bench.mining.calls import BEGAN_US, SECOND_US, clocked, is_missing
from bench.mining.peers import ask_peer
from bench.mining.plots import bars
from bench.report import Report
from bench.tables import write_table

STREAMS, SYMBOLS, LONGEST, SHARE, EACH = 40, 12, 4, 0.5, 10
LENGTHS = (12, 20)
PLANTED, PLANTED_SHARE = 4, 0.8
SEED = 13
TABLE = "CREATE TABLE machines (sensor TEXT PRIMARY KEY, reading STREAM (symbol TEXT)) WITH (time = 'valid', out_of_order = 'accept')"

Items = tuple[str, ...]


def sequences(number: int) -> tuple[list[list[str]], Items]:
    """One per stream, rare and common symbols, and what is planted into four of five."""
    rng = np.random.default_rng([SEED, number])
    weights = 1 / np.arange(1, SYMBOLS + 1)
    wanted = tuple(chr(ord("a") + s) for s in rng.permutation(SYMBOLS)[:PLANTED])
    found = []
    for stream in range(STREAMS):
        own = [chr(ord("a") + s) for s in rng.choice(SYMBOLS, rng.integers(*LENGTHS), p=weights / weights.sum())]
        if stream < PLANTED_SHARE * STREAMS:
            at = int(rng.integers(0, len(own) + 1))
            own = own[:at] + list(wanted) + own[at:]
        found.append(own)
    return found, wanted


def closed(frequent: dict[Items, int], longest: int = LONGEST) -> dict[Items, int]:
    """Those of which no longer one, by a symbol in front or behind, is in as many streams."""
    covered = set()
    for items, streams in frequent.items():
        if len(items) <= longest:
            covered |= {part for part in (items[1:], items[:-1]) if frequent.get(part) == streams}
    return {items: streams for items, streams in frequent.items() if items not in covered}


def asked(data: Sequence[Sequence[str]], arguments: str) -> tuple[dict[Items, int], float]:
    """What SQL answers, and in how many seconds."""
    rows = [(f"s{stream}", at, symbol) for stream, own in enumerate(data) for at, symbol in enumerate(own)]
    names, places, symbols = zip(*rows, strict=True)
    ts = pa.array(np.array(places, np.int64) * SECOND_US + BEGAN_US, pa.timestamp("us", tz="UTC"))
    with local_database() as (database, engine):
        database.execute(TABLE)
        database.execute(f"INSERT INTO machines VALUES {', '.join(f'({n!r}, NULL)' for n in dict.fromkeys(names))}")
        database.execute(
            f"CREATE QUERY q AS SELECT UNNEST(FREQUENT_SEQUENCES(symbol, by => sensor, collapse => FALSE, {arguments})) AS found"
            " FROM machines BEGIN (NOW - 1 DAY) END (NOW)"
        )
        database.push("machines", pa.table({"sensor": names, "ts": ts, "symbol": symbols}))
        engine.drain()
        seconds, answer = clocked(lambda: database.invoke("q").table.to_pylist())
    return {tuple(row["found"]["items"]): row["found"]["streams"] for row in answer}, seconds


def measure_sequences(report: Report) -> Figures:
    if is_missing(report.say, "frequent_sequences", "sequences"):
        return {}
    data = [sequences(number) for number in range(EACH)]
    arguments = f"share => {SHARE}, longest => {LONGEST}, top => 1000"
    adjacent = [asked(own, arguments)[0] for own, _ in data]
    wide, spent = zip(*(asked(own, f"{arguments}, gap => {10 * LENGTHS[1]}") for own, _ in data), strict=True)
    least = int(np.ceil(SHARE * STREAMS))
    figures: Figures = {
        "sequences_found_share": float(
            np.mean([wanted in own for own, (_, wanted) in zip(adjacent, data, strict=True)])
        ),
        "sequences_ms_in_sql": 1000 * float(np.median(spent)),
    }
    task = {"least": least, "longest": LONGEST, "databases": [own for own, _ in data]}
    peer = ask_peer(report, "prefixspan", task)
    if peer is None:
        return figures
    theirs = [closed({tuple(items): count for count, items in each}) for each in peer["found"]]
    figures["sequences_equal_prefixspan"] = float(np.mean([one == two for one, two in zip(wide, theirs, strict=True)]))
    figures["sequences_prefixspan_ms"] = 1000 * float(np.median(peer["seconds"]))
    table: list[dict[str, Any]] = [
        {"data": n, "ours": len(one), "prefixspan": len(two), "the same": len(one.items() & two.items())}
        for n, (one, two) in enumerate(zip(wide, theirs, strict=True))
    ]
    write_table("mining_sequences", f"sequences of {STREAMS} streams, in at least {least}, any gap", table)
    bars_of = {
        key: {str(line["data"]): float(line[key]) for line in table} for key in ("ours", "prefixspan", "the same")
    }
    bars("mining_sequences", {"frequent sequences": bars_of}, {})
    return figures
