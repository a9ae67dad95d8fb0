"""Where a broker is, how one gets in, and paho's client as this server uses it.

It connects to addresses that were checked, and reads packets in bounded memory. Both bounds override methods that paho keeps to
itself; tests notice if a version of paho names them otherwise. As a source needs it, a connection has no threads of its own and
acknowledges nothing unasked. Its messages take a shorter way (`LeanClient`): paho makes an object of every message's properties,
which no code here reads; with it, reading a message takes longer than storing it.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

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


_NUMBERS = itertools.count(1)
_ONLY_IF_NEW = 1  # retained messages come with a subscription that was not there before
_NEVER = 2
_GOODBYE_S = 2.0
_TOPICS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class MessageIn:
    """One message. `repeated`: the broker says that it has sent it before. `connection`: of which client.

    Without a `payload` it was too long to be kept.
    """

    topic: str
    payload: bytes | None
    qos: int
    mid: int
    retained: bool
    repeated: bool
    connection: int


class BrokerRefusal(ConnectionError):
    """The broker answered, and said no."""


class Client:
    """One connection from its opening on; ConnectionError once it is lost. `number` tells connections apart."""

    def __init__(
        self, options: Mapping[str, Any], identity: str, take: Callable[[MessageIn], None], rules: AddressRules
    ) -> None:
        self._rules = rules
        self.number = next(_NUMBERS)
        self.connected = False
        self.session_present = False
        self.refused_topics: list[str] = []
        self._take = take
        self._qos: int = options["qos"]
        self._retained: bool = options["retained"]
        self._v5 = options["protocol"] == "5"
        self._problem: Exception | None = None
        self._asked: dict[int | None, list[str]] = {}
        self._subscribed: set[str] = set()
        self._taken = 0
        self._client = self._made(options, options["client_id"] or identity)
        url: BrokerUrl = options["url"]
        keepalive_s = options["keepalive"] // 1_000_000
        if self._v5:
            expiry_s = min(options["session_expiry"] // 1_000_000, 0xFFFFFFFF)
            properties = _properties(
                PacketTypes.CONNECT, ReceiveMaximum=options["in_flight"], SessionExpiryInterval=expiry_s
            )
            self._client.connect(url.host, url.port, keepalive_s, clean_start=False, properties=properties)
        else:
            self._client.connect(url.host, url.port, keepalive_s)

    def _made(self, options: Mapping[str, Any], client_id: str) -> paho.Client:
        client = LeanClient(
            CallbackAPIVersion.VERSION2,
            take=self._take_parts,
            rules=self._rules,
            client_id=client_id,
            protocol=paho.MQTTv5 if self._v5 else paho.MQTTv311,
            manual_ack=True,
            clean_session=None if self._v5 else False,
        )
        client.connect_timeout = options["timeout"] / 1_000_000
        client.sign_in(options)
        client.on_message = self._on_message
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        return client

    # -- what paho tells

    def _take_parts(self, header: int, topic: str, payload: bytes | None, mid: int) -> None:
        self._taken += 1
        if payload is not None and len(payload) > self._rules.line_max_bytes:
            payload = None
        self._take(
            MessageIn(topic, payload, header >> 1 & 3, mid, bool(header & 1), bool(header & 8), self.number),
        )

    def _on_message(self, _: object, __: object, message: paho.MQTTMessage) -> None:
        header = message.dup << 3 | message.qos << 1 | message.retain
        self._take_parts(header, message.topic, bytes(message.payload), message.mid)

    def _on_connect(self, _: object, __: object, flags: paho.ConnectFlags, reason: ReasonCode, ___: object) -> None:
        if reason.is_failure:
            self._problem = BrokerRefusal(f"the broker says: {reason}")
            return
        self.connected = True
        self.session_present = bool(flags.session_present)

    def _on_subscribe(self, _: object, __: object, mid: int, reasons: list[ReasonCode], ___: object) -> None:
        for topic, reason in zip(self._asked.pop(mid, []), reasons, strict=False):
            if reason.is_failure:
                self.refused_topics.append(f"{topic} ({reason})")

    # -- what a source asks for

    def wait(self, also: socket.socket, read: bool, timeout_s: float) -> None:
        """Wait until there is something to read or write, the socket `also` has something to read, or the time has passed."""
        connection = self._socket()
        if read and isinstance(connection, ssl.SSLSocket) and connection.pending():
            return
        reading = [connection, also] if read else [also]
        writing = [connection] if self._client.want_write() else []
        _, writable, _ = select.select(reading, writing, [], timeout_s)
        if writable:
            self._check(self._client.loop_write())

    def read(self, wanted: Callable[[], bool], most: int) -> None:
        """Hand over messages that have come, as long as they are wanted."""
        end = self._taken + most
        while self._taken < end and wanted():
            before = (self._taken, self.connected)
            self._check(self._client.loop_read())
            if (self._taken, self.connected) == before:
                return

    def subscribe(self, topics: Iterable[str]) -> None:
        retained = _ONLY_IF_NEW if self._retained else _NEVER
        wanted: list[Any]
        asked = list(topics)
        for chunk in (asked[at : at + _TOPICS_AT_ONCE] for at in range(0, len(asked), _TOPICS_AT_ONCE)):
            if self._v5:
                wanted = [(t, SubscribeOptions(qos=self._qos, retainHandling=retained)) for t in chunk]
            else:
                wanted = [(t, self._qos) for t in chunk]
            code, mid = self._client.subscribe(wanted)
            self._check(code)
            self._asked[mid] = chunk
            self._subscribed.update(chunk)

    @property
    def is_settled(self) -> bool:
        """Whether the broker has answered everything that it was asked for."""
        return not self._asked

    def unsubscribe(self, topics: Iterable[str]) -> None:
        for topic in list(topics):
            code, _ = self._client.unsubscribe(topic)
            self._check(code)
            self._subscribed.discard(topic)

    def acknowledge(self, mids: Iterable[int]) -> None:
        """In the order in which the messages came, as MQTT wants it."""
        for mid in mids:
            self._check(self._client.ack(mid, 1))

    def tick(self) -> None:
        """Pings, and what went wrong since."""
        self._check(self._client.loop_misc())

    def say_goodbye(self, forever: bool) -> None:
        """Leave in order. The broker keeps the session, unless no client will come back for it."""
        properties = None
        if self._v5 and forever:
            properties = _properties(PacketTypes.DISCONNECT, SessionExpiryInterval=0)
        elif forever:
            # MQTT 3.1.1 ends a session only by a new connection; without subscriptions it takes in nothing.
            self.unsubscribe(self._subscribed)
        # Paho closes its socket at once. Until the broker has read our last acknowledgements and closed its side, another
        # connection of ours could overtake them.
        with socket.socket(fileno=os.dup(self._socket().fileno())) as kept:
            self._client.disconnect(properties=properties)
            while self._client.want_write() and self._client.socket() is not None:
                if self._client.loop_write() != paho.MQTT_ERR_SUCCESS:
                    return
            _wait_for_end(kept)

    def close(self) -> None:
        connection = self._client.socket()
        if connection is not None:
            connection.close()

    def _socket(self) -> Any:
        connection = self._client.socket()
        if connection is None:
            raise self._problem or ConnectionError("the broker closed the connection")
        return connection

    def _check(self, code: MQTTErrorCode) -> None:
        if self._problem is not None:
            raise self._problem
        if code != paho.MQTT_ERR_SUCCESS:
            raise ConnectionError(paho.error_string(code).rstrip("."))


def _properties(packet: int, **values: int) -> Properties:
    made = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _wait_for_end(connection: socket.socket) -> None:
    connection.settimeout(_GOODBYE_S)
    try:
        while connection.recv(65_536):
            pass
    except OSError:
        # It takes too long, or was rude.
        return
