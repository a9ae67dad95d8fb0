"""A Mosquitto of one's own on loopback, and somebody who listens to it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
ABSENT = "LEFT OUT: no Mosquitto here (the Debian package mosquitto)"


class Broker:
    """Started and stopped at will, always at the same port, with what it retained."""

    def __init__(self, folder: Path, anonymous: bool = True) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        folder.mkdir(exist_ok=True)
        self._config = folder / "mosquitto.conf"
        lines = [f"listener {self.port} 127.0.0.1", f"allow_anonymous {str(anonymous).lower()}"]
        lines += ["persistence true", f"persistence_location {folder}/", "autosave_interval 1", "user root"]
        self._config.write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        assert MOSQUITTO is not None
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline and self._process.poll() is None, "mosquitto does not start"
                time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None


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
        assert subscribed.wait(20)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
