"""MQTT in, from a real Mosquitto: what arrives, what is refused, and that nothing acknowledged is lost."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.errors import PenstockError
from tests.sensors.mqtt_world import Plant, Publisher, wait_until
from tests.support.mosquitto import Mosquitto, needs_mosquitto

pytestmark = needs_mosquitto
SITES = "site TEXT, sensor INT, reading STREAM, PRIMARY KEY (site, sensor)) WITH (discover = true)"
TOPIC = "topic 'plant/{site}/{sensor}/gas'"


@pytest.fixture(scope="module")
def broker(module_broker: Mosquitto) -> Mosquitto:
    return module_broker


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, broker: Mosquitto) -> Iterator[Plant]:
    made = Plant(tmp_path_factory.mktemp("data"), broker)
    yield made
    made.db.stop()


@pytest.fixture
def plant(shared: Plant) -> Plant:
    for table in shared.db.tables():
        shared.db.catalog.drop("table", [table["name"]])
    for name in list(shared.db.catalog.state.stream_types):
        shared.db.catalog.drop("stream_type", [name])
    return shared


@pytest.fixture
def publisher(broker: Mosquitto) -> Iterator[Publisher]:
    made = Publisher(broker)
    yield made
    made.close()


def reading(n: int, **more: Any) -> str:
    return json.dumps({"ppm": n / 2, "seq": n, **more})


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_objects_come_in_with_their_sensors_read_from_the_topic(
    plant: Plant, publisher: Publisher, protocol: str
) -> None:
    plant.create(SITES, options=f"{TOPIC}, protocol '{protocol}'")
    publisher.send(
        [("plant/north/1/gas", reading(1)), ("plant/south/2/gas", reading(2)), ("plant/north/1/gas", reading(3))]
    )
    publisher.send([("plant/north/1/other", reading(4)), ("elsewhere", reading(5))])
    plant.wait_for(3)
    assert plant.rows("site", "sensor", "ppm", "seq", "_address") == [
        ("north", 1, 0.5, 1, "plant/north/1/gas"),
        ("south", 2, 1.0, 2, "plant/south/2/gas"),
        ("north", 1, 1.5, 3, "plant/north/1/gas"),
    ]
    wait_until(lambda: plant.facts()["accepted"] == 3)


def test_a_plain_value_is_the_only_field(plant: Plant, publisher: Publisher) -> None:
    plant.create("sensor TEXT PRIMARY KEY, reading STREAM) WITH (discover = true)", "ppm DOUBLE", "topic 'p/{sensor}'")
    publisher.send([("p/a", "1.5"), ("p/b", " 2 "), ("p/a", "warm"), ("p/a", "1e3"), ("p/a", b"\xff"), ("p/a", "")])
    plant.wait_for(3)
    assert plant.rows("sensor", "ppm") == [("a", 1.5), ("b", 2.0), ("a", 1000.0)]
    wait_until(lambda: plant.facts()["refused"] == {"invalid_value": 3})


def test_a_level_of_the_topic_may_name_the_field(plant: Plant, publisher: Publisher) -> None:
    stream = "temperature DOUBLE, open BOOLEAN, note TEXT"
    plant.create("room TEXT PRIMARY KEY, climate STREAM) WITH (discover = true)", stream, "topic 'home/{room}/{field}'")
    sent = [("temperature", "21.5"), ("open", "ON"), ("note", "window"), ("colour", "red")]
    publisher.send((f"home/hall/{field}", value) for field, value in sent)
    plant.wait_for(3)
    assert plant.rows("room", "temperature", "open", "note") == [
        ("hall", 21.5, None, None),
        ("hall", None, True, None),
        ("hall", None, None, "window"),
    ]
    wait_until(lambda: plant.facts()["refused"] == {"unknown_field": 1})


def test_each_message_is_judged_alone_and_what_nobody_asked_for_is_counted(plant: Plant, publisher: Publisher) -> None:
    plant.create(SITES, options=TOPIC)
    bad = ["{", "[1]", "17", "null", '{"other": 1}', '{"ppm": "much", "seq": 1}']
    publisher.send([("plant/a/1/gas", payload) for payload in bad])
    publisher.send([("plant/a/x/gas", reading(1)), ("plant/a/1/gas", f"[{reading(2)}, {reading(3, battery=80)}]")])
    plant.wait_for(2)
    assert plant.rows("site", "sensor", "seq") == [("a", 1, 2), ("a", 1, 3)]
    refused = {"invalid_body": 2, "unknown_field": 2, "missing_field": 1, "invalid_value": 2}
    wait_until(lambda: plant.facts()["refused"] == refused)
    facts = plant.facts()
    assert (facts["ignored"], facts["messages"]) == (2, 8)
    assert sorted(facts["ignored_names"]) == ["battery", "other"]
    (shown,) = [row for row in plant.db.execute("SHOW INPUTS").table.to_pylist() if row["name"] == "mqtt probes"]
    assert shown["state"] == "connected" and "missing_field 1" in shown["reasons"]
    assert plant.db.status()["inputs"]["mqtt probes"]["refused"]["invalid_body"] == 2


def test_times_members_and_columns_go_where_the_options_say(plant: Plant, publisher: Publisher) -> None:
    options = "topic 'v/#', time 'at', unit 'ms', columns 'sensor=meta.id, ppm=values.co2'"
    table = "sensor INT PRIMARY KEY, place TEXT, reading STREAM) WITH (discover = true, time = 'valid')"
    plant.create(table, "ppm DOUBLE, seq BIGINT", options)
    message = {"meta": {"id": 7}, "values": {"co2": 3.5}, "seq": 1, "at": 1_700_000_000_123, "place": "roof"}
    publisher.send([("v/x", json.dumps(message)), ("v/y", json.dumps({**message, "at": "2023-11-14T22:14:00Z"}))])
    plant.wait_for(2)
    assert [(*row[:4], row[4].timestamp()) for row in plant.rows("sensor", "place", "ppm", "seq", "ts")] == [
        (7, "roof", 3.5, 1, 1_700_000_000.123),
        (7, "roof", 3.5, 1, 1_700_000_040.0),
    ]


def test_without_a_pattern_each_sensor_has_its_topic(plant: Plant, publisher: Publisher) -> None:
    plant.create("sensor INT PRIMARY KEY, place TEXT, reading STREAM)")
    plant.db.execute("INSERT INTO probes VALUES (1, 'gate', 'own/one'), (2, 'pier', 'own/two'), (3, 'none', '')")
    asked = lambda: plant.db.sources._running[plant.db.catalog_table("probes").id][2]._subscriptions._asked  # noqa: E731
    wait_until(lambda: asked() == {"own/one", "own/two"})
    stored = lambda: set(plant.rows("sensor", "place", "seq"))  # noqa: E731
    wait_until(lambda: [publisher.send([("own/one", reading(1))]), stored()][1] == {(1, "gate", 1)})
    plant.db.execute("UPDATE probes SET reading = 'own/three' WHERE sensor = 2")
    wait_until(lambda: asked() == {"own/one", "own/three"})
    publisher.send([("own/two", reading(9))])
    wait_until(lambda: [publisher.send([("own/three", reading(2))]), stored()][1] >= {(2, "pier", 2)})
    assert stored() == {(1, "gate", 1), (2, "pier", 2)}
    assert {s["state"] for s in plant.db.sensors("probes")} == {"open"}


def test_a_table_that_does_not_discover_refuses_strangers(plant: Plant, publisher: Publisher) -> None:
    plant.create(SITES.replace(" WITH (discover = true)", ""), options=TOPIC)
    plant.db.execute("INSERT INTO probes VALUES ('a', 1, '')")
    publisher.send([("plant/a/1/gas", reading(1)), ("plant/a/2/gas", reading(2))])
    plant.wait_for(1)
    wait_until(lambda: plant.facts()["refused"] == {"sensor_not_found": 1})


def test_retained_messages_are_old_and_taken_only_where_that_is_wanted(plant: Plant, publisher: Publisher) -> None:
    publisher.send([("kept/a", "1")], retain=True)
    table = "sensor TEXT PRIMARY KEY, reading STREAM) WITH (discover = true)"
    for number, protocol in enumerate(("5", "3.1.1")):
        options = f"topic 'kept/{{sensor}}', protocol '{protocol}'"
        plant.create(table, "ppm DOUBLE", f"{options}, retained 'true'", f"old{number}")
        plant.create(table, "ppm DOUBLE", options, f"new{number}")
    publisher.send([("kept/b", "2")])
    for number in range(2):
        plant.wait_for(2, f"old{number}")
        plant.wait_for(1, f"new{number}")
        assert plant.rows("sensor", name=f"old{number}") == [("a",), ("b",)]
        assert plant.rows("sensor", name=f"new{number}") == [("b",)]
    publisher.send([("kept/a", "")], retain=True)


def test_nothing_is_acknowledged_and_not_much_is_read_while_the_log_takes_nothing(
    plant: Plant, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant.create(SITES, options=f"{TOPIC}, in_flight '20'")
    sync, full = os.fsync, True

    def write(descriptor: int) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", write)
    publisher.send((f"plant/a/{n % 3}/gas", reading(n)) for n in range(300))
    wait_until(lambda: "full" in str(plant.facts()["last_error"]) and plant.facts()["in_flight"] > 0)
    assert plant.facts()["in_flight"] <= 20
    assert plant.facts()["messages"] <= 20
    full = False
    plant.wait_for(300)
    assert [row[0] for row in plant.rows("seq")] == list(range(300))


def test_a_dropped_table_is_no_longer_read(plant: Plant) -> None:
    plant.create(SITES, options=TOPIC)
    source = plant.db.sources._running[plant.db.catalog_table("probes").id][2]
    plant.db.execute("DROP TABLE probes")
    wait_until(lambda: source.facts().state == "stopped")
    assert not plant.db.sources.facts()


BAD_TYPES = [
    ("url 'http://x'", "mqtt://broker"),
    ("url 'mqtt://u:secret@x'", "password_file"),
    ("url 'mqtt://x', topic 'a/#/b'", "# stands alone"),
    ("url 'mqtt://x', topic 'a/b+'", "+ stands alone"),
    ("url 'mqtt://x', topic 'a/{s}/{s}'", "twice"),
    ("url 'mqtt://x', topic 'a/{}'", "without a name"),
    ("url 'mqtt://x', qos '2'", "neither 0 nor 1"),
    ("url 'mqtt://x', field 'pmp'", 'did you mean "ppm"'),
    ("url 'mqtt://x', columns 'ppm'", "field=member"),
    ("url 'mqtt://x', in_flight '70000'", "65535"),
    ("url 'mqtt://x', protocol '4'", "none of"),
    ("topic 'a'", "needs it"),
]


@pytest.mark.parametrize(("options", "says"), BAD_TYPES)
def test_options_that_cannot_work_are_refused_at_once(plant: Plant, options: str, says: str) -> None:
    with pytest.raises(PenstockError) as caught:
        plant.db.execute(f"CREATE STREAM TYPE probe AS (ppm DOUBLE) USING mqtt OPTIONS ({options})")
    assert says in f"{caught.value.message} {caught.value.hint}"
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("options", "table", "says"),
    [
        ("topic 'a/{sight}'", "site TEXT PRIMARY KEY, r STREAM probe)", 'did you mean "site"'),
        ("columns 'pmp=x'", "site TEXT PRIMARY KEY, r STREAM probe)", 'did you mean "ppm"'),
        ("qos '1'", "site TEXT PRIMARY KEY, r STREAM probe) WITH (discover = true)", "which topics"),
    ],
)
def test_a_table_whose_columns_the_topic_does_not_fit_is_refused(
    plant: Plant, options: str, table: str, says: str
) -> None:
    plant.db.execute(f"CREATE STREAM TYPE probe AS (ppm DOUBLE) USING mqtt OPTIONS (url 'mqtt://x', {options})")
    with pytest.raises(PenstockError) as caught:
        plant.db.execute(f"CREATE TABLE t ({table}")
    assert says in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_long_message_is_counted_and_acknowledged_and_those_behind_it_come(
    plant: Plant, publisher: Publisher, protocol: str
) -> None:
    plant.create(
        "sensor TEXT PRIMARY KEY, reading STREAM) WITH (discover = true)",
        options=f"topic 'long/{{sensor}}', protocol '{protocol}'",
    )
    sizes = (0, 3 << 20, (1 << 20) + 10, 0)
    publisher.send([("long/a", reading(n, pad="x" * size)) for n, size in enumerate(sizes)])
    plant.wait_for(2)
    wait_until(lambda: plant.facts()["in_flight"] == 0)
    assert plant.rows("seq") == [(0,), (3,)]
    assert plant.facts()["refused"] == {"body_too_large": 2} and "line_max_bytes" in plant.facts()["last_error"]
    assert plant.facts()["connects"] == 1
