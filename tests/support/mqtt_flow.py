"""Numbered messages to a broker at a rate, with QoS 1, through whatever happens to the broker."""

from __future__ import annotations

import socket
import threading
import time

from bench.console_publisher import TICK_S, UNACKNOWLEDGED, WAIT_S, Acknowledgements, connect_packet, message

ACCEPTED = b"\x20\x02\x00\x00"


class Flow(threading.Thread):
    """Sends every number below `upto` until the broker has acknowledged it, in order; numbers may be sent twice.

    `acknowledged`: the broker has said that it has all numbers below it.
    """

    def __init__(self, port: int, rate: int, sensors: int) -> None:
        super().__init__(name="flow", daemon=True)
        self.upto = 0
        self.acknowledged = 0
        self.connected = False
        self._port = port
        self._rate = rate
        self._sensors = sensors
        self._ended = threading.Event()

    def send(self, more: int) -> None:
        """So many numbers more, from now on."""
        self.upto += more

    def go_back_to(self, number: int) -> None:
        """Send again from here on: the broker is down, and what it acknowledged later is on no disk. Not while connected."""
        assert not self.connected
        self.acknowledged = number

    def end(self) -> None:
        self._ended.set()
        self.join(WAIT_S)

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self._port), WAIT_S) as connection:
                    connection.sendall(connect_packet("flow"))
                    if connection.recv(4) == ACCEPTED:
                        self.connected = True
                        self._send(connection)
            except OSError:
                self._ended.wait(0.05)
            finally:
                self.connected = False

    def _send(self, connection: socket.socket) -> None:
        first = sent = self.acknowledged
        heard = Acknowledgements(connection)
        due_s = time.monotonic()
        while not self._ended.is_set():
            now_s = time.monotonic()
            # What the broker could not take in time is not made up for: the rate is the most, too.
            due_s = max(due_s, now_s - 5 * TICK_S)
            room = UNACKNOWLEDGED - (sent - first - heard.count)
            many = max(0, min(self.upto - sent, room, round((now_s - due_s) * self._rate)))
            if many:
                connection.settimeout(WAIT_S)
                connection.sendall(b"".join(message(number, self._sensors) for number in range(sent, sent + many)))
                sent += many
                due_s += many / self._rate
            heard.read(TICK_S)
            self.acknowledged = first + heard.count
