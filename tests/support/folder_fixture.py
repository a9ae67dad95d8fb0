"""Data folders as released versions wrote them, with the answers that those versions gave.

`python -m tests.support.folder_fixture 0.1` makes one with the code of this checkout and a real server:
tests/data/folders/0.1.tar.gz (the folder after a clean stop) and 0.1.json (each query's answer).
A folder is made once, by the version that it is named after, and never again: later versions have to open it.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from penstock.client.connection import Connection
from penstock.errors import PenstockError
from tests.support.server_process import ServerProcess, server_process

FOLDERS = Path(__file__).parents[1] / "data" / "folders"
BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
OPTIONS = (
    *("--compact-after-segments", "4", "--cycles-keep", "8"),
    *("--cycle-interval-ms", "20"),
    *("--sleep-after-s", "1", "--spark-query-budget", "0.9"),
)

DEFINITIONS = """
CREATE FUNCTION fahrenheit(celsius DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$
    return None if celsius is None else celsius * 9 / 5 + 32
$$;
CREATE TABLE rooms (room INT PRIMARY KEY, name TEXT, reading STREAM (celsius DOUBLE, note TEXT)) WITH (time = 'valid');
INSERT INTO rooms VALUES (1, 'hall', ''), (2, 'lab', ''), (3, 'it''s "odd" \\ {r0} – ünï', '');
CREATE TABLE meters (meter TEXT PRIMARY KEY, site TEXT, load STREAM (watts DOUBLE)) WITH (time = 'valid', retention = '6 HOURS');
INSERT INTO meters VALUES ('a', 'north', ''), ('b', 'south', '');
CREATE TABLE doors (door INT PRIMARY KEY, floor INT, passage STREAM (people INT));
INSERT INTO doors VALUES (7, 1, ''), (8, 2, '');
CREATE TABLE limits (name TEXT PRIMARY KEY, highest DOUBLE);
INSERT INTO limits VALUES ('hall', 24), ('lab', 21);
CREATE ROLLUP power ON meters AS SELECT site, COUNT(*), AVG(watts), MAX(watts) GROUP BY site
  EVERY 1 MINUTE KEEP 1 DAY, EVERY 1 HOUR KEEP FOR EVER;
"""

# In the cycle: answered without Spark SQL, so also by an engine without Spark.
QUERIES = {
    "warm": "SELECT name, celsius, ts FROM rooms WHERE celsius > 23 BEGIN (NOW - 2 HOURS) END (NOW)",
    "last_rows": "SELECT name, celsius FROM rooms WHERE celsius IS NOT NULL BEGIN (LAST 2 ROWS PER SENSOR)",
    "long_warm": "SELECT name, ts FROM rooms WHERE celsius > 21 FOR 10 MINUTES BEGIN (NOW - 5 HOURS) END (NOW)",
    "odd_text": """SELECT name, note FROM rooms WHERE note LIKE '%{%' OR note = 'it''s' BEGIN (NOW - 3 HOURS) END (NOW)""",
    "means": "SELECT name, AVG(celsius) AS mean, COUNT(*) AS n FROM rooms GROUP BY name BEGIN (NOW - 3 HOURS) END (NOW)",
    "per_half_hour": "SELECT name, window_start, MAX(celsius) AS top FROM rooms GROUP BY name, TUMBLE(30 MINUTES) BEGIN (NOW - 2 HOURS) END (NOW)",
    "ever": "SELECT name, MAX(celsius) AS top, COUNT(*) AS n FROM rooms GROUP BY name, LATCH BEGIN ('2026-01-01 00:00:00')",
    "pairs": "SELECT a.name, b.name AS other, a.celsius, b.celsius AS then FROM rooms a, rooms b DWINDOW(a, b) = 5 MINUTES"
    " WHERE a.room = 1 AND b.room = 2 AND a.celsius > 22 BEGIN (NOW - 4 HOURS) END (NOW)",
    "over_limit": "SELECT r.name, r.celsius, l.highest FROM rooms r, limits l WHERE l.name = r.name AND r.celsius > l.highest"
    " BEGIN (NOW - 90 MINUTES) END (NOW)",
    "energy": "SELECT site, window_start, AVG(watts) AS mean, COUNT(*) AS n FROM meters GROUP BY site, TUMBLE(1 HOUR)"
    " BEGIN (NOW - 20 DAYS) END (NOW)",
    "estimates": "SELECT name, APPROX_DISTINCT(note) AS notes FROM rooms GROUP BY name BEGIN (NOW - 3 HOURS) END (NOW)",
    "resampled": "SELECT a.ts, a.celsius, RESAMPLE(b.celsius, 10 MINUTES, LINEAR) AS lab FROM rooms a, rooms b"
    " WHERE a.room = 1 AND b.room = 2 BEGIN (NOW - 1 HOUR) END (NOW)",
    "busy": "SELECT floor, SUM(people) AS people FROM doors GROUP BY floor BEGIN (NOW - 36500 DAYS) END (NOW)",
}
# Answered by Spark alone.
ON_SPARK = {
    "ranked": "SELECT name, celsius, RANK() OVER (PARTITION BY name ORDER BY celsius DESC) AS place FROM rooms"
    " WHERE note <> 'it''s {r0} {now} \\' BEGIN (NOW - 1 HOUR) END (NOW)",
    "converted": "SELECT name, fahrenheit(celsius) AS f FROM rooms WHERE fahrenheit(celsius) > 74 BEGIN (NOW - 1 HOUR) END (NOW)",
}
# What came with format 3: functions of series, run plans, and files of cells. Folders of before do not have them.
DEFINITIONS_3 = (
    "CREATE TABLE parcels (belt INT PRIMARY KEY, seen STREAM (parcel INT)) WITH (time = 'valid');"
    """
INSERT INTO parcels VALUES (1, '')"""
)
QUERIES_3 = {
    "highest": "SELECT name, SERIES(celsius, every => 10 MINUTES, slot => MAX) AS highest FROM rooms GROUP BY name"
    " BEGIN (NOW - 3 HOURS) END (NOW)",
    "beats": "SELECT site, PERIODS(watts, every => 5 MINUTES, strength => 0.1) AS found FROM meters GROUP BY site"
    " BEGIN (NOW - 10 HOURS) END (NOW)",
    "seen_twice": "SELECT parcel, COUNT(*) AS n FROM parcels GROUP BY parcel HAVING COUNT(*) > 1"
    " BEGIN (NOW - 1 DAY) END (NOW)",
}
PARCELS = 17_000  # with one cell each there are enough for a file
MORE = """
CREATE SINK warm_files FOR warm TO files (folder = 'warm', max_age = 10 MINUTES);
CREATE QUERY gone AS SELECT name FROM rooms WHERE celsius < 0;
DROP QUERY gone;
CREATE QUERY rests AS SELECT name, celsius FROM rooms WHERE celsius > 20;
ALTER QUERY rests PAUSE;
UPDATE rooms SET name = 'great hall' WHERE room = 1;
INSERT INTO limits VALUES ('great hall', 23);
DELETE FROM limits WHERE name = 'lab';
"""


def readings(first: int, count: int) -> list[dict[str, Any]]:
    notes = (None, "it's", "{now}", "a\\b", "ünï–☃", "", "{r0}")
    return [
        {
            "room": 1 + n % 3,
            "ts": BEGAN + timedelta(minutes=n),
            "celsius": None if n % 41 == 0 else round(18 + (n * 7 % 50) / 7 + n % 3, 3),
            "note": notes[n % len(notes)],
        }
        for n in range(first, first + count)
    ]


def loads(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"meter": "ab"[n % 2], "ts": BEGAN + timedelta(minutes=5 * n), "watts": float(100 + n * 13 % 97)}
        for n in range(first, first + count)
    ]


def parcels() -> list[dict[str, Any]]:
    """Each parcel once, and four of them twice."""
    return [{"belt": 1, "ts": BEGAN + timedelta(seconds=n // 10), "parcel": n % (PARCELS - 4)} for n in range(PARCELS)]


def fill(server: ServerProcess, db: Connection) -> None:
    db.sql(DEFINITIONS)
    db.sql(DEFINITIONS_3)
    db.push("rooms", readings(0, 60))
    db.push("meters", loads(0, 120))
    db.register(list({**QUERIES, **QUERIES_3}.items()))
    server.wait(lambda: _is_read(db), 180, "reading")  # Spark SQL tries a query on tables that a cycle has taken in
    db.register(list(ON_SPARK.items()))
    db.push("parcels", parcels())
    for first in range(60, 300, 20):
        db.push("rooms", readings(first, 20))
        db.push("meters", loads(120 + first // 2, 10))
        db.push("doors", [{"door": 7 + first // 20 % 2, "people": first}])
        time.sleep(0.3)
    db.sql(MORE)
    db.push("rooms", readings(300, 40))
    server.wait(lambda: any((server.data / "rollups").rglob("*.parquet")), 180, "rolled up")
    server.wait(lambda: any((server.data / "log").rglob("*.parquet")), 180, "compacted")

    def is_folded() -> bool:
        db.push("doors", [{"door": 7, "people": 1}])  # without news there is no cycle
        return any((server.data / "commits").glob("snapshot-*"))

    server.wait(is_folded, 180, "folded into a snapshot")
    server.wait(lambda: any((server.data / "slices").rglob("*.arrow")), 180, "kept in files of cells")
    server.wait(lambda: b'"run_plan"' in (server.data / "journal" / "journal.jsonl").read_bytes(), 180, "asleep")


def _is_read(db: Connection) -> bool:
    try:
        return bool(db.invoke("means").rows())
    except PenstockError:
        return False  # before the first answer


def settled(db: Connection, names: list[str], pause_s: float = 3) -> dict[str, list[dict[str, Any]]]:
    """Answers that two looks apart in time agree on."""
    before: dict[str, list[dict[str, Any]]] = {}
    while True:
        found = {name: plain_rows(db.invoke(name).rows()) for name in names}
        if found == before:
            return found
        before = found
        time.sleep(pause_s)


def plain_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as JSON has them, in an order of their own."""
    plain: list[dict[str, Any]] = json.loads(json.dumps(rows, default=str))
    return sorted(plain, key=lambda row: json.dumps(row, sort_keys=True))


def make(version: str) -> None:
    names = [*QUERIES, *QUERIES_3, *ON_SPARK]
    with tempfile.TemporaryDirectory() as scratch, server_process(Path(scratch), options=OPTIONS) as server:
        server.start()
        with server.connect() as db:
            fill(server, db)
            settled(db, names)
        server.stop()
        server.start()  # once more, so that the folder was also opened by its own version
        with server.connect() as db:
            answers = settled(db, names)
        server.stop()
        (FOLDERS / f"{version}.json").write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
        with tarfile.open(FOLDERS / f"{version}.tar.gz", "w:gz") as archive:
            archive.add(server.data, "data")


if __name__ == "__main__":
    make(sys.argv[1])
