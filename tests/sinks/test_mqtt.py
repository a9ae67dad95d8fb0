"""Publishing to a real Mosquitto: the retained answer, rows by topic, and a broker that comes and goes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.sinks.mqtt import topic_of
from tests.sinks.broker import Listener
from tests.sinks.world import eventually, hot_probes, push, sink
from tests.support.mosquitto import Mosquitto, needs_mosquitto
from tests.support.pipe import Pipe

pytestmark = needs_mosquitto


def to_mqtt(pipe: Pipe, broker: Mosquitto, options: str) -> None:
    pipe.db.execute(f"CREATE SINK out FOR hot TO mqtt (url = '{broker.url}', {options})")


def retained(broker: Mosquitto, topic: str) -> list[bytes]:
    """What somebody gets who subscribes now."""
    listener = Listener(broker.port, topic)
    try:
        eventually(lambda: listener.messages)
        return [body for _, body, is_retained in listener.messages if is_retained]
    finally:
        listener.close()


@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_the_retained_message_is_the_current_answer(pipe: Pipe, broker: Mosquitto, version: str) -> None:
    hot_probes(pipe, "BEGIN LAST 2 ROWS")
    push(pipe, 11.0)
    to_mqtt(pipe, broker, f"topic = 'plant/hot', protocol = '{version}'")
    push(pipe, 12.0)
    push(pipe, 13.0)
    cycle = pipe.db.standing.store.cycle
    eventually(lambda: sink(pipe)["cycle"] == cycle and sink(pipe)["lag"] == 0)
    (body,) = retained(broker, "plant/hot")
    told = json.loads(body)
    assert (told["query"], [row["value"] for row in told["rows"]]) == ("hot", pipe.answer("hot"))
    assert [row["value"] for row in told["rows"]] == [12.0, 13.0]


def test_mosquitto_sub_reads_the_retained_answer(pipe: Pipe, broker: Mosquitto) -> None:
    reader = shutil.which("mosquitto_sub")
    if reader is None:
        pytest.skip("LEFT OUT: no mosquitto_sub here (the Debian package mosquitto-clients)")
    hot_probes(pipe)
    push(pipe, 11.0)
    to_mqtt(pipe, broker, "topic = 'plant/hot'")
    eventually(lambda: sink(pipe)["deliveries"] == 1)
    command = [reader, "-h", "127.0.0.1", "-p", str(broker.port), "-t", "plant/hot", "-C", "1", "-W", "30"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert [row["value"] for row in told["rows"]] == [11.0]


def test_a_broker_that_was_away_gets_the_newest_answer(pipe: Pipe, broker: Mosquitto) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    to_mqtt(pipe, broker, "topic = 'plant/hot'")
    eventually(lambda: sink(pipe)["deliveries"] == 1)
    broker.stop()
    push(pipe, 12.0)
    eventually(lambda: sink(pipe)["failed"] > 0)
    for value in (13.0, 14.0):
        push(pipe, value)
    broker.start()
    eventually(lambda: sink(pipe)["lag"] == 0)
    eventually(lambda: json.loads(retained(broker, "plant/hot")[0])["cycle"] == pipe.db.standing.store.cycle)
    assert [row["value"] for row in json.loads(retained(broker, "plant/hot")[0])["rows"]] == [11.0, 12.0, 13.0, 14.0]


def test_a_broker_that_was_killed_and_forgot_gets_the_answer_again_although_nothing_changed(
    pipe: Pipe, broker: Mosquitto, caplog: pytest.LogCaptureFixture
) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    to_mqtt(pipe, broker, "topic = 'plant/hot'")
    eventually(lambda: sink(pipe)["deliveries"] == 1)
    broker.kill()
    eventually(lambda: "the broker is gone" in caplog.text)
    broker.start()
    eventually(lambda: sink(pipe)["deliveries"] == 2)
    assert [row["value"] for row in json.loads(retained(broker, "plant/hot")[0])["rows"]] == [11.0]
    assert sink(pipe)["state"] == "RUNNING" and sink(pipe)["failed"] > 0


def test_a_restarted_server_publishes_its_answer_again(pipe: Pipe, broker: Mosquitto) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    to_mqtt(pipe, broker, "topic = 'plant/hot'")
    eventually(lambda: sink(pipe)["deliveries"] == 1)
    pipe.db.stop()
    listener = Listener(broker.port, "plant/hot")
    eventually(lambda: len(listener.messages) == 1)
    pipe.open()
    eventually(lambda: len(listener.messages) == 2)
    listener.close()


def test_rows_go_to_topics_of_their_own_and_none_is_lost(pipe: Pipe, broker: Mosquitto) -> None:
    hot_probes(pipe)
    listener = Listener(broker.port, "plant/#")
    to_mqtt(pipe, broker, "topic = 'plant/{place}/{id}', payload = 'rows', retain = false")
    push(pipe, 11.0)
    pipe.push(12.0, sensor=2)
    pipe.engine.drain()
    eventually(lambda: len(listener.messages) == 2)
    assert [topic for topic, _, _ in listener.messages] == ["plant/north/1", "plant/south/2"]
    broker.stop()
    push(pipe, 13.0)
    eventually(lambda: sink(pipe)["failed"] > 0)
    pipe.restart()
    push(pipe, 14.0)
    broker.start()
    late = Listener(broker.port, "plant/#")  # the first one may take a while to come back
    eventually(lambda: sink(pipe)["lag"] == 0)
    push(pipe, 15.0)
    eventually(lambda: any(json.loads(body)["value"] == 15.0 for _, body, _ in late.messages))
    eventually(lambda: sink(pipe)["lag"] == 0 and sink(pipe)["gaps"] == 0)
    assert sink(pipe)["rows"] == 3
    listener.close()
    late.close()


def test_a_broker_that_refuses_is_shown_without_the_password(pipe: Pipe, tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path / "closed", "allow_anonymous false\n")
    hot_probes(pipe)
    to_mqtt(pipe, broker, "topic = 't', username = 'me', password = 'hidden'")
    eventually(lambda: sink(pipe)["failed"] > 0)
    assert sink(pipe)["last_error"] == "the broker refused: Not authorized"
    broker.stop()


def test_a_topic_names_columns_of_the_query(pipe: Pipe) -> None:
    hot_probes(pipe)
    for topic, more in (("a/+", ""), ("a/{plce}", ", payload = 'rows'"), ("a/{place}", "")):
        with pytest.raises(PenstockError) as caught:
            pipe.db.execute(f"CREATE SINK out FOR hot TO mqtt (url = 'mqtt://h', topic = '{topic}'{more})")
        assert caught.value.condition == "invalid_option" and caught.value.hint
    assert topic_of("a/{x}/{y}", {"x": "b/c+#", "y": None}) == "a/b_c__/None"
