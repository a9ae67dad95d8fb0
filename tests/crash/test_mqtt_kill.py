"""Messages of a real broker flow through a server into sinks, and both are killed: nothing is lost, doubled or wrong.

The publisher offers 10 000 messages a second with QoS 1. Every message has a number, so what each place must hold is known.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as paho
import pyarrow.parquet as pq
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from penstock.client import Connection
from penstock.errors import PenstockError
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices
from tests.sinks.world import Receiver, eventually
from tests.support.mosquitto import Mosquitto, needs_mosquitto
from tests.support.mqtt_flow import Flow
from tests.support.server_process import ServerProcess, local_server_process

pytestmark = needs_mosquitto
READER = shutil.which("mosquitto_sub")
RATE, SENSORS = 10_000, 70
TYPE = "CREATE STREAM TYPE probe AS (ppm DOUBLE, seq BIGINT) USING mqtt OPTIONS (url '{url}', topic 'plant/{{sensor}}')"
TABLE = (
    "CREATE TABLE probes (sensor INT PRIMARY KEY, reading STREAM probe) WITH (discover = true)"
    " DEDUPLICATE BY (seq) WITHIN 1 HOUR"
)
TOTALS = (
    "CREATE QUERY totals AS SELECT COUNT(*) AS messages, SUM(seq) AS total FROM probes BEGIN (NOW - 1 HOUR) END (NOW)"
)
HOT = "CREATE QUERY hot AS SELECT sensor, seq, ppm FROM probes WHERE ppm > 99 BEGIN (NOW - 1 HOUR) END (NOW)"
SINKS = ("to_broker", "to_files", "to_hook")
TO_BROKER = "CREATE SINK to_broker FOR hot TO mqtt (url = '{url}', topic = 'out/hot')"
TO_FILES = "CREATE SINK to_files FOR hot TO files (folder = 'hot', max_age = 1 SECOND)"
TO_HOOK = "CREATE SINK to_hook FOR hot TO webhook (url = '{url}')"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def flow(broker: Mosquitto) -> Iterator[Flow]:
    made = Flow(broker.port, RATE, SENSORS)
    yield made
    if made.is_alive():
        made.end()


def test_a_broker_and_a_server_that_are_killed_in_mid_flow_cost_nothing(
    tmp_path: Path, broker: Mosquitto, receiver: Receiver, flow: Flow
) -> None:
    with local_server_process(tmp_path) as server:
        server.start()
        define(server, broker, receiver)
        flow.start()
        kill_broker(server, broker, flow)
        kill_server(server, flow)
        flow.send(10_000)
        check_answers(server, flow.upto)
        check_sinks(server, broker, receiver, flow.upto)
        end_in_mid_flow(server, broker, flow)


def define(server: ServerProcess, broker: Mosquitto, receiver: Receiver) -> None:
    with server.connect() as db:
        for statement in (TYPE, TABLE, TOTALS, HOT, TO_BROKER, TO_FILES):
            db.sql(statement.format(url=broker.url) if "{url}" in statement else statement)
        db.sql(TO_HOOK.format(url=receiver.url))
        server.wait(lambda: bool(mqtt_input(db)["connected"]), 60, "connected to the broker")


def mqtt_input(db: Connection) -> dict[str, Any]:
    return dict(db.status()["inputs"]["mqtt probes"])


def stored(server: ServerProcess) -> int:
    """Numbers in the log, of all lives."""
    return sum(segment.end - segment.first for segment in list_segments(server.data / "log", 1))


def numbers(server: ServerProcess) -> Any:
    pieces = slices(list_segments(server.data / "log", 1), 0, 2**60)
    return np.sort(np.concatenate([read_slice(piece, ["seq"]).column("seq").to_numpy() for piece in pieces]))


def sinks(db: Connection) -> dict[str, dict[str, Any]]:
    return dict(db.status()["sinks"])


def kill_broker(server: ServerProcess, broker: Mosquitto, flow: Flow) -> None:
    """With messages that it has acknowledged since it last saved: those are the publisher's to send again."""
    flow.send(20_000)
    server.wait(lambda: stored(server) > 5_000, 60, "storing")
    with server.connect() as db:
        server.wait(lambda: sinks(db)["to_broker"]["deliveries"] > 0, 60, "publishing")
    saved = flow.acknowledged
    broker.save()
    flow.send(10_000)
    server.wait(lambda: flow.acknowledged > saved + 2_000, 60, "going on while the broker saved")
    broker.kill()
    eventually(lambda: not flow.connected)
    flow.go_back_to(saved)
    broker.start()
    with server.connect() as db:
        server.wait(lambda: has_come_back(sinks(db)["to_broker"]), 60, "publishing again")
        server.wait(lambda: mqtt_input(db)["connects"] >= 2, 60, "reading again")


def kill_server(server: ServerProcess, flow: Flow) -> None:
    """All its processes at once, with messages on their way; more come while it is gone."""
    flow.send(10_000)
    before = stored(server)
    server.wait(lambda: stored(server) > before, 60, "storing again")
    server.kill_all()
    flow.send(5_000)
    eventually(lambda: flow.acknowledged == flow.upto)
    server.start()


def has_come_back(sink: dict[str, Any]) -> bool:
    return sink["failed"] > 0 and sink["state"] == "RUNNING"


def hot_numbers(count: int) -> list[int]:
    return list(range(99, count, 100))


def check_answers(server: ServerProcess, count: int) -> None:
    """Each number is in the log once, and the standing queries say what the messages said."""
    server.wait(lambda: stored(server) >= count, 120, f"storing all of {count}")
    assert np.array_equal(numbers(server), np.arange(count))
    with server.connect() as db:
        server.wait(lambda: totals(db) == (count, count * (count - 1) // 2), 60, "counting all of them")
        found = sorted((row["seq"], row["sensor"], row["ppm"]) for row in db.invoke("hot").rows())
    assert found == [(number, number % SENSORS, 99.5) for number in hot_numbers(count)]


def totals(db: Connection) -> tuple[int, int] | None:
    try:
        (row,) = db.invoke("totals").rows()
    except PenstockError as failure:
        assert failure.condition == "not_ready", failure
        return None
    return row["messages"], row["total"]


def check_sinks(server: ServerProcess, broker: Mosquitto, receiver: Receiver, count: int) -> None:
    """Each as it promises: files exactly once, the webhook once per key, the broker the answer as it is now."""
    with server.connect() as db:
        answer = db.invoke("hot")
        cycle = answer.cycle
        assert cycle is not None
        server.wait(lambda: all((s["cycle"] or 0) >= cycle for s in sinks(db).values()), 60, "delivering everything")
        shown = db.sql("SHOW SINKS").rows()
        assert [(row["name"], row["state"]) for row in shown] == [(name, "RUNNING") for name in sorted(SINKS)]
        assert [sink["gaps"] for sink in sinks(db).values()] == [0] * len(SINKS)
    folder = server.data / "out" / "hot"
    server.wait(lambda: len(written(folder)) >= len(hot_numbers(count)), 60, "finishing its last file")
    assert written(folder) == hot_numbers(count)
    assert sorted(receiver.rows("seq")) == hot_numbers(count)
    assert repeats_are_the_same(receiver)
    if READER is not None:
        assert retained(broker) == sorted((row["seq"], row["sensor"], row["ppm"]) for row in answer.rows())


def written(folder: Path) -> list[int]:
    return sorted(seq for path in folder.glob("*.parquet") for seq in pq.read_table(path)["seq"].to_pylist())


def repeats_are_the_same(receiver: Receiver) -> bool:
    bodies = {(headers["Idempotency-Key"], json.dumps(json.loads(body)["rows"])) for headers, body in receiver.taken}
    return max(Counter(key for key, _ in bodies).values()) == 1


def retained(broker: Mosquitto) -> list[tuple[int, int, float]]:
    command = [str(READER), "-h", "127.0.0.1", "-p", str(broker.port), "-t", "out/hot", "-C", "1", "-W", "30"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert told["query"] == "hot"
    return sorted((row["seq"], row["sensor"], row["ppm"]) for row in told["rows"])


def end_in_mid_flow(server: ServerProcess, broker: Mosquitto, flow: Flow) -> None:
    """SIGTERM: what the broker was told is stored is on disk, so the disk and the broker's session have everything."""
    flow.send(20_000)
    before = stored(server)
    server.wait(lambda: stored(server) > before, 60, "storing more")
    assert server.stop() == 0
    eventually(lambda: flow.acknowledged == flow.upto)
    on_disk = numbers(server)
    assert len(np.unique(on_disk)) == len(on_disk)
    kept = left_at_broker(server, broker, flow.upto - 1)
    assert set(on_disk.tolist()) | kept == set(range(flow.upto))
    print(f"{len(on_disk)} numbers on disk, {len(kept)} at the broker, {flow.upto} published")


def left_at_broker(server: ServerProcess, broker: Mosquitto, last: int) -> set[int]:
    """What the broker still has for the server, read in its name until the last number, unless there is nothing."""
    if last in numbers(server):
        return set()
    identity = f"penstock-{(server.data / 'folder_id').read_text().strip()[:8]}-probes-1"
    found: set[int] = set()
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=identity, protocol=paho.MQTTv5)
    client.on_message = lambda _, __, message: found.add(json.loads(message.payload)["seq"])
    expiry = Properties(PacketTypes.CONNECT)
    expiry.SessionExpiryInterval = 3600
    client.connect("127.0.0.1", broker.port, clean_start=False, properties=expiry)
    client.loop_start()
    try:
        eventually(lambda: last in found)
    finally:
        client.disconnect()
        client.loop_stop()
    return set(found)
