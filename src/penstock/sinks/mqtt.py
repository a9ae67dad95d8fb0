"""mqtt: the current answer as a retained message, or each row as a message of its own.

Retained: a subscriber gets the answer at once, and each new one; answers that were superseded while the broker
was away are passed over. Rows: at least once, with QoS 1, acknowledged by the broker before the sink moves on.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.reasoncodes import ReasonCode

from penstock.clock import format_timestamp
from penstock.errors import error
from penstock.json_rows import row_objects
from penstock.sensors.mqtt_client import ACCESS, BrokerUrl, CheckedClient, parse_url
from penstock.sensors.options import flag, one_of
from penstock.sinks.base import Kind, Option, Outlet, Place, SinkBatch, delivery_failed
from penstock.sinks.options import CHANGES, ROWS, TIMEOUT, require_columns, required_text
from penstock.types import Field

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
# So many messages are on their way to the broker at once.
IN_FLIGHT = 1000
_LOOK_S = 0.2


class Mqtt(Outlet):
    """One connection to a broker. Connected when it is first needed; given up at the first trouble."""

    def __init__(self, place: Place, options: Mapping[str, Any]) -> None:
        self._sink = place.sink
        self._options = options
        self._answered = threading.Event()
        self._troubles: list[str] = []  # the first one says why
        self._client = CheckedClient(
            CallbackAPIVersion.VERSION2,
            # Of this folder and sink, so that a server that was killed is thrown out by the one that follows it.
            client_id=f"penstock-{place.folder_id[:12]}-{place.sink.id}",
            protocol=paho.MQTTv5 if options["protocol"] == "5" else paho.MQTTv311,
            reconnect_on_failure=False,
            rules=place.rules,
        )
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.connect_timeout = options["timeout"]
        url: BrokerUrl = options["url"]
        try:
            self._client.sign_in(options)
            self._client.connect(url.host, url.port, keepalive=30)
        except (OSError, ValueError) as failure:
            raise delivery_failed(f"the broker cannot be reached: {failure}") from None
        self._client.loop_start()
        answered = self._answered.wait(options["timeout"])
        if self._troubles or not answered:
            self.close()
            raise delivery_failed([*self._troubles, "the broker did not answer"][0])

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        if reason.is_failure:
            self._troubles.append(f"the broker refused: {reason}")
        self._answered.set()

    def _on_disconnect(self, client: Any, data: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        self._troubles.append(f"the broker is gone: {reason}")
        self._answered.set()

    def deliver(self, batch: SinkBatch) -> None:
        rows = row_objects(batch.table)
        if self._options["payload"] == "answer":
            now = None if batch.now_us is None else format_timestamp(batch.now_us)
            answer = {"query": self._sink.query, "cycle": batch.cycle, "now": now, "rows": rows}
            self._publish([(self._options["topic"], orjson.dumps(answer))])
            return
        for begin in range(0, len(rows), IN_FLIGHT):
            self._publish(
                [(topic_of(self._options["topic"], row), orjson.dumps(row)) for row in rows[begin : begin + IN_FLIGHT]]
            )

    def _publish(self, messages: list[tuple[str, bytes]]) -> None:
        """Returns once the broker has acknowledged all of them."""
        options = self._options
        sent = [
            self._client.publish(topic, body, qos=options["qos"], retain=options["retain"]) for topic, body in messages
        ]
        deadline = time.monotonic() + options["timeout"]
        for info in sent:
            if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
                raise delivery_failed([*self._troubles, f"the broker is gone: {paho.error_string(info.rc)}"][0])
            while not info.is_published():
                if self._troubles or time.monotonic() > deadline:
                    raise delivery_failed([*self._troubles, "the broker did not acknowledge a message in time"][0])
                info.wait_for_publish(_LOOK_S)

    def tick(self) -> None:
        """A broker that went away is noticed before there is something new to tell it: it may have lost the retained message."""
        if self._troubles:
            raise delivery_failed(self._troubles[0])

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def topic_of(template: str, row: Mapping[str, Any]) -> str:
    """The topic of a row: `{column}` is its value, in which the marks of topic patterns have no place."""
    return _PLACEHOLDER.sub(lambda found: re.sub(r"[+#/\0]", "_", str(row[found.group(1)])), template)


def _topic(text: str) -> str:
    found = required_text(text)
    if "+" in found or "#" in found or "\0" in found:
        raise ValueError("a message goes to one topic: + and # are for subscribers")
    return found


def _check(columns: Sequence[Field], options: Mapping[str, Any]) -> None:
    named = _PLACEHOLDER.findall(options["topic"])
    if named and options["payload"] == "answer":
        hint = "add payload = 'rows' to send each row to a topic of its own"
        raise error("invalid_option", option="topic", detail="an answer goes to one topic", hint=hint)
    require_columns("topic", named, [column.name for column in columns])


KIND = Kind(
    name="mqtt",
    sentence="Publishes to an MQTT broker: the current answer as a retained message, or row by row.",
    promise="the retained message is the newest answer; rows: at least once (QoS 1)",
    options=(
        Option(
            "url",
            None,
            "The broker: mqtt://host:1883, or mqtts://host:8883 with TLS; user@ before the host.",
            parse_url,
        ),
        Option("topic", None, "Where to publish; with payload = 'rows', {column} is a row's value.", _topic),
        Option(
            "payload",
            "answer",
            "answer: the whole answer, whenever it changes. rows: each row that enters it.",
            one_of("answer", "rows"),
        ),
        Option("retain", "true", "Whether the broker keeps the last message of a topic for later subscribers.", flag),
        Option(
            "qos",
            "1",
            "1: acknowledged by the broker; 0: what is lost is lost; 2: once at the broker.",
            lambda text: int(one_of("0", "1", "2")(text)),
        ),
        Option("protocol", "5", "MQTT version: 5 or 3.1.1.", one_of("5", "3.1.1")),
        *ACCESS,
        TIMEOUT,
        CHANGES,
        ROWS,
    ),
    open=Mqtt,
    target=lambda options: f"{options['url']} {options['topic']}",
    answers=lambda options: bool(options["payload"] == "answer"),
    check=_check,
)
