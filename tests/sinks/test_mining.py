"""UNNEST(ANOMALIES(..)) to files and to a webhook: each anomaly arrives once, also across a kill and a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from penstock.clock import SECOND, format_timestamp, parse_timestamp
from tests.operators.mining.story import same
from tests.oracle import mining
from tests.sinks.world import Receiver, eventually, kill, sink
from tests.support.pipe import Pipe

SENSORS = (1, 2)


def kept(folder: Path) -> list[dict[str, Any]]:
    """The rows of all finished files."""
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["id"], row["a"]["at"]))


def arrived(pipe: Pipe) -> bool:
    return all(sink(pipe, name)["lag"] == 0 for name in ("kept", "told"))


def test_files_and_a_webhook_get_each_anomaly_once(pipe: Pipe, receiver: Receiver) -> None:
    pipe.db.execute("CREATE TABLE probes (id INT PRIMARY KEY, reading STREAM (value DOUBLE)) WITH (time = 'valid')")
    pipe.db.execute("INSERT INTO probes VALUES (1, NULL), (2, NULL)")
    pipe.db.execute(
        "CREATE QUERY odd AS SELECT id, UNNEST(ANOMALIES(value, every => 1 SECOND, history => 20 SECONDS, score => 6)) AS a"
        " FROM probes GROUP BY id BEGIN (NOW - 60 SECONDS) END (NOW)"
    )
    pipe.engine.drain()
    pipe.db.execute("CREATE SINK kept FOR odd TO files (folder = 'odd', max_age = 1 SECOND)")
    pipe.db.execute(f"CREATE SINK told FOR odd TO webhook (url = '{receiver.url}')")
    rows: dict[int, list[mining.Row]] = {sensor: [] for sensor in SENSORS}
    for step in range(200):
        pipe.clock.advance(SECOND)
        ts = pipe.clock.now_us() // 1000 * 1000
        for sensor in SENSORS:
            value = float((step * 7919 + sensor) % 13) + (500.0 if (step + 7 * sensor) % 19 == 11 else 0.0)
            rows[sensor].append(mining.Row(ts, step, "", value))
        sent = [{"id": sensor, "value": own[-1].value, "ts": format_timestamp(ts)} for sensor, own in rows.items()]
        assert pipe.db.push("probes", sent).accepted == len(SENSORS)
        pipe.engine.drain()
        if step in (90, 150):
            kill(pipe) if step == 90 else pipe.db.stop()
            pipe.open()
        if step % 20 == 0:
            eventually(lambda: arrived(pipe))
    eventually(lambda: arrived(pipe))
    truth = []
    for sensor, own in rows.items():
        series = mining.slots(own, 0, own[-1].ts, SECOND)
        found = mining.anomalies(series, mining.Scoring(history=20, score=6))
        truth += [{"id": sensor, "a": {"at": series.times[i], **line}} for i, line in found]
    assert len(truth) > 15
    told = [{"id": row["id"], "a": {**row["a"], "at": parse_timestamp(row["a"]["at"])}} for row in all_rows(receiver)]
    assert same(in_order(told), truth)
    pipe.clock.advance(SECOND)  # the last file is old enough now
    folder = pipe.folder / "out" / "odd"
    eventually(lambda: len(kept(folder)) >= len(truth))
    files = [
        {"id": row["id"], "a": {**row["a"], "at": round(row["a"]["at"].timestamp() * SECOND)}} for row in kept(folder)
    ]
    assert same(in_order(files), truth)
    assert sink(pipe, "kept")["gaps"] == sink(pipe, "told")["gaps"] == 0


def all_rows(receiver: Receiver) -> list[dict[str, Any]]:
    """What the webhook took, batches with the same key counted once."""
    ids, found = receiver.rows("id"), receiver.rows("a")
    return [{"id": id_, "a": a} for id_, a in zip(ids, found, strict=True)]
