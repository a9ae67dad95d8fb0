"""Paho's client with a shorter way for messages that come in.

Paho makes an object of every message's properties, which no code here reads; with it, reading a message takes longer than storing it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode

from penstock.sensors.mqtt_connection import CheckedClient

TakeMessage = Callable[[int, str, bytes | None, int], None]
"""Takes a message: the first byte of its packet, topic, payload (None if it was too long), and number (0 with QoS 0)."""


class LeanClient(CheckedClient):
    """Gives messages to `take`. What looks unusual goes the long way, to `on_message`, as would all if paho named its parts otherwise."""

    def __init__(self, *arguments: Any, take: TakeMessage, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._take = take
        self._v5 = options["protocol"] == paho.MQTTv5

    def _handle_publish(self) -> MQTTErrorCode:
        try:
            header, packet = self._in_packet["command"], self._in_packet["packet"]
        except (AttributeError, KeyError, TypeError):
            return super()._handle_publish()
        if self.is_too_long:
            return self._take_head(header, bytes(packet))
        found = parts_of(header, packet, self._v5)
        if found is None:
            return super()._handle_publish()
        self._take(header, *found)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _take_head(self, header: int, packet: bytes) -> MQTTErrorCode:
        """Report a message without its payload, so that it is counted and the broker does not send it again."""
        found = parts_of(header, packet, v5=False)
        if found is None:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        topic, _, number = found
        self._take(header, topic, None, number)
        return MQTTErrorCode.MQTT_ERR_SUCCESS


def parts_of(header: int, packet: bytes | bytearray, v5: bool) -> tuple[str, bytes, int] | None:
    """Topic, payload and number of a PUBLISH packet; None for one of QoS 2, and for one that is not as it should be."""
    qos = header >> 1 & 3
    if qos > 1:
        return None
    try:
        at = 2 + (packet[0] << 8 | packet[1])
        topic = packet[2:at].decode()
        number = 0
        if qos:
            number = packet[at] << 8 | packet[at + 1]
            at += 2
        if v5:
            at = _behind_properties(packet, at)
    except (IndexError, UnicodeDecodeError):
        return None
    if not topic or at > len(packet):
        return None
    return topic, bytes(packet[at:]), number


def _behind_properties(packet: bytes | bytearray, at: int) -> int:
    """Their length comes first, seven bits a byte, the least first, in at most four bytes."""
    size, shift = 0, 0
    while True:
        byte = packet[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at + size
        shift += 7
        if shift > 21:
            raise IndexError(at)
