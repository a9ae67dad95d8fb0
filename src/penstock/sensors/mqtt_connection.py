"""Paho's client as this server lets it connect and read: to addresses that were checked, and packets in bounded memory.

Both bounds override methods that paho keeps to itself; tests notice if a version of paho names them otherwise.
"""

from __future__ import annotations

import socket
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode

from penstock.sensors.address_rules import AddressRules

_PUBLISH = 0x30
_RECEIVE_BYTES = 1 << 16
# What is kept of a packet that is too long: more than its topic and number can take.
HEAD_BYTES = 1 << 17


class CheckedClient(paho.Client):
    """Connects by `rules`. Of a packet that is too long only the head is kept; `is_too_long` says so while it is handled."""

    def __init__(self, *arguments: Any, rules: AddressRules | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._rules = rules or AddressRules()

    def _create_socket_connection(self) -> socket.socket:
        return self._rules.targets.connect(self.host, self.port, self.connect_timeout, by_admin=True)

    @property
    def is_too_long(self) -> bool:
        return bool(self._in_packet["remaining_length"] > self._rules.line_max_bytes + HEAD_BYTES)

    def _sock_recv(self, bufsize: int) -> bytes:
        # Paho asks for the whole rest of a packet, which may say that it has 256 MB.
        if self._in_packet["have_remaining"] and self.is_too_long:
            del self._in_packet["packet"][HEAD_BYTES:]
        return super()._sock_recv(min(bufsize, _RECEIVE_BYTES))

    def _packet_handle(self) -> MQTTErrorCode:
        if self.is_too_long and self._in_packet["command"] & 0xF0 != _PUBLISH:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        return super()._packet_handle()
