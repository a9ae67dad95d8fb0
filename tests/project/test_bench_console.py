"""The arithmetic of the console's benchmark, and its packets: what it says was measured must be what happened."""

from __future__ import annotations

import math
import socket

import numpy as np
import orjson
import paho.mqtt.client as paho
import pytest

from bench.console_mqtt import sustained
from bench.console_publisher import Acknowledgements, connect_packet, length_bytes, message, publish_packet
from bench.console_readers import PUSH_ROWS, grown_mb, push_batch
from bench.console_screen import FIRST_MARKER, WATCH, delays_ms, finite
from bench.console_subscribers import Heard, missing_rows


def test_a_marker_that_never_came_counts_as_one_that_took_for_ever() -> None:
    delays = delays_ms({1: 100.0, 2: 200.0, 3: 300.0}, {1: 150.0, 3: 320.0, 9: 1.0})
    assert delays == [20.0, 50.0, math.inf]
    assert finite(delays, 0.5) == 50.0
    assert finite(delays, 0.99) is None and finite([], 0.5) is None


def test_pages_look_for_numbers_as_large_as_the_markers_are() -> None:
    assert "/^7[0-9]{9}$/" in WATCH and str(FIRST_MARKER).startswith("7") and len(str(FIRST_MARKER)) == 10


@pytest.mark.parametrize(
    ("length", "wire"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (16_384, b"\x80\x80\x01")]
)
def test_lengths_are_written_as_mqtt_wants_them(length: int, wire: bytes) -> None:
    assert length_bytes(length) == wire


def test_packets_are_those_of_a_client_library() -> None:
    ours, theirs = socket.socketpair()
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="bench-1", protocol=paho.MQTTv311)
    with ours, theirs:
        client._sock = theirs
        client._send_publish(7, b"plant/5", b'{"ppm": 5.5, "seq": 5}', 1)
        client._send_connect(0)
        assert ours.recv(1000) == publish_packet(b"plant/5", 7, b'{"ppm": 5.5, "seq": 5}') + connect_packet("bench-1")
        client._sock = None


def test_a_message_says_its_number_and_its_packet_has_one_too() -> None:
    numbered = message(65_535 + 12, sensors=10)
    assert b"plant/7" + (13).to_bytes(2, "big") in numbered and numbered.endswith(b'"seq": 65547}')
    # 0 would be no number at all.
    assert b"plant/5\0\1" in message(65_535, sensors=10)


def test_acknowledgements_are_counted_wherever_they_are_cut() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        heard = Acknowledgements(ours)
        for piece in (b"\x40\x02\0", b"\1\x40\x02\0\2\x40", b"\x02\0\3"):
            heard.take(piece)
        assert heard.count == 3
        with pytest.raises(ConnectionError):
            heard.take(b"\xd0\0\0\0")


def test_the_rate_is_the_highest_that_was_kept_or_what_the_lowest_came_to() -> None:
    steps = [{"messages_per_s": rate, "kept": kept} for rate, kept in ((10, True), (20, True), (25, False))]
    assert sustained(steps)["messages_per_s"] == 20
    assert sustained(steps[2:])["messages_per_s"] == 25


def test_readers_have_every_row_only_if_each_has_each_once() -> None:
    rows = push_batch(0, 5_000, np.random.default_rng(1)).to_pylist()
    whole, short, doubled = Heard(), Heard(), Heard()
    half = orjson.dumps({"rows": rows[: PUSH_ROWS // 2]})
    for one, second in ((whole, rows[PUSH_ROWS // 2 :]), (short, rows[PUSH_ROWS // 2 : -3])):
        one.take(half, 7_000)
        one.take(orjson.dumps({"rows": second}), 8_000)
    doubled.take(half, 7_000)
    doubled.take(half, 8_000)
    assert (missing_rows([whole], PUSH_ROWS), missing_rows([whole, short], PUSH_ROWS)) == (0, 3)
    assert missing_rows([doubled], PUSH_ROWS) == 1
    assert whole.delays_ms == [2.0, 3.0] and whole.frames == 2


def test_growth_is_from_the_first_tenth_to_the_last_quarter() -> None:
    samples = [(float(i), 100.0 + (50.0 if i >= 30 else 0.0) + (900.0 if i in (1, 35) else 0.0)) for i in range(40)]
    assert grown_mb(samples) == 50.0
    assert math.isnan(grown_mb([]))
