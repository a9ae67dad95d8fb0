"""Packets of messages, taken apart as paho does, however they are cut or spoiled."""

from __future__ import annotations

import random
import socket
import threading

import pytest
from paho.mqtt import _packet
from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from penstock.sensors.mqtt_client import CheckedClient, LeanClient, parts_of


def properties(chance: random.Random) -> bytes:
    """Few and many: their length takes one byte or two."""
    made = Properties(PacketTypes.PUBLISH)
    if chance.random() < 0.5:
        made.ContentType = "x" * chance.choice([1, 100, 200, 20_000])
    if chance.random() < 0.3:
        made.UserProperty = [("a", "b")] * chance.randrange(1, 40)
    if chance.random() < 0.3:
        made.MessageExpiryInterval = chance.randrange(1 << 32)
    return bytes(made.pack())


def random_packet(chance: random.Random, v5: bool) -> tuple[int, bytes]:
    qos = chance.choice([0, 1, 1])
    header = 0x30 | chance.randrange(2) << 3 | qos << 1 | chance.randrange(2)
    topic = chance.choice(["plant/7", "täglich/µ", "a" * 300]).encode()
    packet = len(topic).to_bytes(2, "big") + topic
    if qos:
        packet += chance.randrange(1, 65_536).to_bytes(2, "big")
    if v5:
        packet += properties(chance)
    return header, packet + chance.randbytes(chance.choice([0, 1, 30, 5_000]))


@pytest.mark.parametrize("v5", [True, False])
def test_random_packets_say_what_paho_says(v5: bool) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(300):
        header, packet = random_packet(chance, v5)
        expected = _packet.decode_publish(header, packet, MQTTv5 if v5 else MQTTv311)
        assert parts_of(header, packet, v5) == (expected.topic.decode(), expected.payload, expected.mid)


def test_what_is_not_as_it_should_be_is_left_to_paho() -> None:
    whole = b"\x00\x01t\x00\x07\x03abcx"
    assert parts_of(0x32, whole, True) == ("t", b"x", 7)
    assert parts_of(0x32, whole[:-1], True) == ("t", b"", 7)
    for length in range(len(whole) - 1):
        assert parts_of(0x32, whole[:length], True) is None, length
    assert parts_of(0x34, whole, True) is None, "QoS 2"
    assert parts_of(0x32, b"\x00\x01\xff\x00\x07\x00", True) is None, "no UTF-8"
    assert parts_of(0x32, b"\x00\x00\x00\x07\x00", True) is None, "an alias instead of a topic"
    assert parts_of(0x32, b"\x00\x01t\x00\x07\xff\xff\xff\xff\x7f" + b"x" * 100, True) is None, (
        "a length without an end"
    )


@pytest.mark.parametrize("spoiled", [None, {}, {"command": 0x30}])
def test_where_paho_keeps_packets_otherwise_they_go_its_own_way(
    spoiled: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[object] = []
    monkeypatch.setattr(Client, "_handle_publish", lambda client: handled.append(client) or MQTTErrorCode(0))
    client = LeanClient(CallbackAPIVersion.VERSION2, take=lambda *_: pytest.fail("it cannot know"), protocol=MQTTv5)
    client._in_packet = spoiled  # type: ignore[assignment]
    assert client._handle_publish() == MQTTErrorCode.MQTT_ERR_SUCCESS and handled == [client]


@pytest.mark.parametrize("v5", [True, False])
def test_of_a_packet_that_is_too_long_only_the_head_is_held_and_its_number_is_told(v5: bool) -> None:
    """200 MB of payload, and a short message behind it."""
    told: list[tuple[str, int | None, int]] = []
    client = LeanClient(
        CallbackAPIVersion.VERSION2,
        take=lambda header, topic, payload, number: told.append((topic, payload and len(payload), number)),
        protocol=MQTTv5 if v5 else MQTTv311,
    )
    ours, theirs = socket.socketpair()
    client._sock = ours
    nothing = b"\0" if v5 else b""
    length = 200 << 20
    remaining = bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14 & 127 | 128, length >> 21])
    head = b"\x32" + remaining + b"\0\x01t\0\x07" + nothing
    short = b"\x32" + bytes([7 + len(nothing)]) + b"\0\x01t\0\x08" + nothing + b"42"

    def send() -> None:
        theirs.sendall(head)
        left = length - (len(head) - 5)
        while left:
            left -= theirs.send(bytes(min(left, 1 << 20)))
        theirs.sendall(short)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    held = 0
    while len(told) < 2:
        assert client._packet_read() in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_AGAIN)
        held = max(held, len(client._in_packet["packet"]))
    thread.join()
    assert told == [("t", None, 7), ("t", 2, 8)] and held < 1 << 18
    ours.close()
    theirs.close()


def test_a_broker_that_answers_with_a_packet_without_end_is_left() -> None:
    client = CheckedClient(CallbackAPIVersion.VERSION2)
    client._in_packet.update(command=0x90, remaining_length=200 << 20)
    assert client._packet_handle() == MQTTErrorCode.MQTT_ERR_PROTOCOL
