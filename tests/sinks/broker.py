"""Somebody who listens to a broker."""

from __future__ import annotations

import threading

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion


class Listener:
    """Subscribes and keeps what comes: (topic, body, retained)."""

    def __init__(self, port: int, pattern: str) -> None:
        self.messages: list[tuple[str, bytes, bool]] = []
        subscribed = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_connect = lambda client, *_: client.subscribe(pattern, qos=1)
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.on_message = lambda _, __, m: self.messages.append((m.topic, m.payload, bool(m.retain)))
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert subscribed.wait(60)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
