"""Messages, from a process of its own: `python -m bench.console_publisher JSON` publishes with QoS 1 at a rate and prints what came of it.

Packets are made here by hand, a tick's worth at a time: a client library takes longer to send a message than the server to
store it, and on two cores it would be the library that is measured.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from typing import Any

TICK_S = 0.01
UNACKNOWLEDGED = 5_000
"""Messages on their way to the broker; beyond them it is waited for."""
IDS = 65_535
ACKNOWLEDGED = b"\x40\x02"
WAIT_S = 60.0


def connect_packet(client_id: str) -> bytes:
    """MQTT 3.1.1, a session of its own, no keep-alive."""
    name = client_id.encode()
    body = b"\x00\x04MQTT\x04\x02\x00\x00" + struct.pack("!H", len(name)) + name
    return b"\x10" + length_bytes(len(body)) + body


def publish_packet(topic: bytes, packet_id: int, payload: bytes) -> bytes:
    """With QoS 1."""
    size = 4 + len(topic) + len(payload)
    return b"\x32%b%b%b%b%b" % (
        length_bytes(size),
        struct.pack("!H", len(topic)),
        topic,
        struct.pack("!H", packet_id),
        payload,
    )


def length_bytes(length: int) -> bytes:
    """Seven bits a byte, the least first; the eighth says that there are more."""
    found = bytearray()
    while True:
        length, low = divmod(length, 128)
        found.append(low | (0x80 if length else 0))
        if not length:
            return bytes(found)


def message(number: int, sensors: int) -> bytes:
    """The message with this number, as a packet."""
    topic = b"plant/%d" % (number % sensors)
    return publish_packet(topic, number % IDS + 1, b'{"ppm": %d.5, "seq": %d}' % (number % 100, number))


class Acknowledgements:
    """Counts what the broker says it has."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""
        self.count = 0

    def read(self, wait_s: float) -> None:
        """What has come; waits so long for the first."""
        # A time-out of 0 would mean that a read never waits, and be another error.
        self._connection.settimeout(max(wait_s, 1e-4))
        try:
            got = self._connection.recv(1 << 18)
        except TimeoutError:
            return
        if not got:
            raise ConnectionError("the broker closed the connection")
        self.take(got)

    def take(self, got: bytes) -> None:
        whole = self._rest + got
        end = len(whole) - len(whole) % 4
        if any(whole[at : at + 2] != ACKNOWLEDGED for at in range(0, end, 4)):
            raise ConnectionError("the broker sent something else than acknowledgements")
        self.count += end // 4
        self._rest = whole[end:]


def publish(task: dict[str, Any]) -> dict[str, Any]:
    """Numbers from `first` on at `rate` for `seconds`; `began` by the machine's clock."""
    with socket.create_connection(("127.0.0.1", task["port"]), WAIT_S) as connection:
        connection.sendall(connect_packet(f"bench-{task['first']}"))
        if connection.recv(4) != b"\x20\x02\x00\x00":
            raise ConnectionError("the broker refused")
        acknowledged = Acknowledgements(connection)
        total = round(task["rate"] * task["seconds"])
        began, began_s = time.time(), time.monotonic()
        sent = 0
        while sent < total:
            passed_s = time.monotonic() - began_s
            due = min(total, round(passed_s * task["rate"])) - sent
            room = UNACKNOWLEDGED - (sent - acknowledged.count)
            many = min(due, room)
            if many > 0:
                numbers = range(task["first"] + sent, task["first"] + sent + many)
                connection.settimeout(WAIT_S)
                connection.sendall(b"".join(message(number, task["sensors"]) for number in numbers))
                sent += many
            acknowledged.read(TICK_S)
            if many > 0:
                time.sleep(max(0.0, TICK_S - (time.monotonic() - began_s - passed_s)))
        seconds = time.monotonic() - began_s
        deadline = time.monotonic() + WAIT_S
        while acknowledged.count < sent and time.monotonic() < deadline:
            acknowledged.read(0.1)
        connection.sendall(b"\xe0\x00")
    return {"began": began, "seconds": seconds, "published": sent, "acknowledged": acknowledged.count}


if __name__ == "__main__":
    print(json.dumps(publish(json.loads(sys.argv[1]))))
