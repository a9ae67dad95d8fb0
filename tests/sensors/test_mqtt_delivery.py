"""What the broker was told is stored is stored, whoever is killed, and with DEDUPLICATE BY it is stored once."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.streams.sources import mqtt_source
from tests.sensors.mqtt_world import Plant, Publisher, wait_until
from tests.support.mosquitto import Mosquitto, needs_mosquitto

pytestmark = needs_mosquitto
TABLE = "sensor INT PRIMARY KEY, reading STREAM) WITH (discover = true) DEDUPLICATE BY (seq) WITHIN 1 HOUR"
OPTIONS = "topic 'plant/{sensor}', keepalive '5s'"


@pytest.fixture
def plant(tmp_path: Path, broker: Mosquitto) -> Iterator[Plant]:
    made = Plant(tmp_path / "data", broker)
    yield made
    made.db.stop()


def messages(first: int, end: int) -> Iterator[tuple[str, str]]:
    return ((f"plant/{n % 7}", f'{{"ppm": {n}, "seq": {n}}}') for n in range(first, end))


def numbers(plant: Plant) -> Counter[int]:
    return Counter(row[0] for row in plant.rows("seq"))


def test_a_server_that_is_stopped_in_mid_stream_has_acknowledged_what_it_stored_and_no_more(
    plant: Plant, broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes twice and nothing is missing, although nobody looks for repeats."""
    monkeypatch.setattr(mqtt_source, "_FAREWELL_S", 60.0)
    plant.create(TABLE.split(" DEDUPLICATE")[0], options=f"{OPTIONS}, in_flight '100'")
    publisher = Publisher(broker)
    sending = threading.Thread(target=lambda: publisher.send(messages(0, 3000)))
    sending.start()
    plant.wait_for(300)
    plant.db.sources.close(60)
    plant.db.stop()
    sending.join()
    plant.open()
    plant.wait_for(3000)
    assert numbers(plant) == Counter(range(3000))
    publisher.close()


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_broker_that_is_restarted_in_mid_stream_loses_nothing(plant: Plant, broker: Mosquitto, protocol: str) -> None:
    plant.create(TABLE, options=f"{OPTIONS}, protocol '{protocol}', in_flight '100'")
    publisher = Publisher(broker)
    sending = threading.Thread(target=lambda: publisher.send(messages(0, 3000)))
    sending.start()
    plant.wait_for(500)
    broker.stop()
    broker.start()
    sending.join()
    plant.wait_for(3000)
    assert numbers(plant) == Counter(range(3000))
    assert plant.facts()["connects"] >= 2
    publisher.close()


def test_passwords_open_the_door_and_show_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = tmp_path / "passwords"
    tool = "mosquitto_passwd"
    subprocess.run([tool, "-c", "-b", str(passwords), "plant", "s3cret-word"], check=True)
    broker = Mosquitto(tmp_path / "broker", f"allow_anonymous false\npassword_file {passwords}\n")
    plant = Plant(tmp_path / "data", broker)
    try:
        (tmp_path / "password").write_text("s3cret-word\n")
        monkeypatch.setenv("BROKER_PASSWORD", "s3cret-word")
        ways = ["password 's3cret-word'", f"password_file '{tmp_path}/password'", "password_env 'BROKER_PASSWORD'"]
        for number, way in enumerate(ways):
            plant.create(TABLE, options=f"{OPTIONS}, username 'plant', {way}", name=f"t{number}")
        plant.db.execute(
            "CREATE STREAM TYPE wrong AS (ppm DOUBLE) USING mqtt "
            f"OPTIONS (url '{broker.url}', topic 'a/{{sensor}}', username 'plant', password 'other-s3cret')"
        )
        plant.db.execute("CREATE TABLE shut (sensor TEXT PRIMARY KEY, reading STREAM wrong) WITH (discover = true)")
        wait_until(lambda: plant.facts("shut")["last_error"])
        assert "Not authorized" in plant.facts("shut")["last_error"]
        shown = [
            str(plant.db.execute(f"SHOW {what}").table.to_pylist()) for what in ("STREAM TYPES", "INPUTS", "SENSORS")
        ]
        shown += [str(plant.db.tables()), str(plant.db.status()), str(plant.db.health()), caplog.text]
        assert not [text for text in shown if "s3cret" in text]
    finally:
        plant.db.stop()
        broker.kill()
