"""Where a broker is, how one gets in, and paho's client as this server lets it connect and read: to addresses that were checked, and packets in bounded memory.

Both bounds override methods that paho keeps to itself; tests notice if a version of paho names them otherwise.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode

from penstock.sensors.address_rules import AddressRules
from penstock.sensors.base import Option
from penstock.sensors.options import flag

_PUBLISH = 0x30
_RECEIVE_BYTES = 1 << 16
# What is kept of a packet that is too long: more than its topic and number can take.
HEAD_BYTES = 1 << 17


class CheckedClient(paho.Client):
    """Connects by `rules`. Of a packet that is too long only the head is kept; `is_too_long` says so while it is handled."""

    def __init__(self, *arguments: Any, rules: AddressRules | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._rules = rules or AddressRules()

    def sign_in(self, options: Mapping[str, Any]) -> None:
        """Set user, password and TLS as the options ACCESS say; password files and variables are read now."""
        url: BrokerUrl = options["url"]
        user = options["username"] or url.user
        if user:
            self.username_pw_set(user, password_of(options))
        if url.secure:
            self.tls_set(options["ca"] or None, options["certificate"] or None, options["key"] or None)
            self.tls_insecure_set(options["insecure"])

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


ACCESS = (
    Option("username", "", "User at the broker."),
    Option("password", "", "Password; stored in the data folder and never shown. Better: one of the next two."),
    Option("password_file", "", "File with the password, read at every connection."),
    Option("password_env", "", "Environment variable of the server with the password."),
    Option("ca", "", "File with the certificates that sign the broker's; empty means the system's."),
    Option("certificate", "", "File with a client certificate."),
    Option("key", "", "File with the key of the client certificate."),
    Option("insecure", "false", "Whether to take any certificate of the broker.", flag),
)


PORTS = {"mqtt": 1883, "tcp": 1883, "mqtts": 8883, "ssl": 8883}


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """mqtt://user@host:port; mqtts:// for TLS."""

    host: str
    port: int
    secure: bool
    user: str | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.secure else 'mqtt'}://{host}:{self.port}"


def parse_url(text: str) -> BrokerUrl:
    """ValueError with a sentence where it is none; a password in it is refused, because addresses are shown."""
    try:
        parts = urlsplit(text if "://" in text else f"mqtt://{text}")
        port = parts.port
    except ValueError:
        raise ValueError("it is not an address like mqtt://broker:1883") from None
    if parts.scheme not in PORTS or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError("it is not an address like mqtt://broker:1883 or mqtts://broker")
    if parts.password is not None:
        raise ValueError("it has a password in it; use the option password_file, password_env or password")
    secure = parts.scheme in ("mqtts", "ssl")
    user = unquote(parts.username) if parts.username else None
    return BrokerUrl(parts.hostname, port or PORTS[parts.scheme], secure, user)


def password_of(options: Mapping[str, Any]) -> str | None:
    """From a file or a variable, read at every connection so that it can be changed; else as it was written."""
    if options["password_file"]:
        return Path(options["password_file"]).read_text().rstrip("\r\n")
    if options["password_env"]:
        found = os.environ.get(options["password_env"])
        if found is None:
            raise ValueError(f"there is no environment variable {options['password_env']}")
        return found
    return options["password"] or None
