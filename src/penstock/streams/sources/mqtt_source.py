"""One table's subscription at a broker: a thread that reads messages, hands them over in batches and acknowledges what is stored.

A message of QoS 1 is acknowledged when the log has its readings or has refused them for good; until then the broker keeps it, also
while one of us is gone, because the session outlives the connection. One batch is under way at a time (`PushDelivery`), and what
arrives meanwhile makes up the next. What was read is stored even if the connection breaks before: a broker that was killed may not
have it any more. Beyond `in_flight` messages nothing is read: the broker's own queue, and then its senders, wait.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from penstock.back_off import BackOff
from penstock.catalog.model import Table
from penstock.catalog.secrets import secrets_of, without
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError, error, one_line
from penstock.sensors.address_rules import AddressRules
from penstock.sensors.mqtt import PayloadReader, TopicPattern, check_filter
from penstock.sensors.mqtt_client import Client, MessageIn
from penstock.services import Service
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.ingest.readings import Push
from penstock.streams.sources.push_delivery import PushDelivery


class TableInbox(InputCounts):
    """Where the source of one table puts what came, and what it has to know of the table."""

    def __init__(self, table: Table, push: Push, state: Callable[[], CatalogState]) -> None:
        super().__init__()
        self._id = table.id
        self._name = table.name
        self._push = push
        self._state = state

    def table(self) -> Table | None:
        """The table as it is defined now; None once it was dropped."""
        return self._state().tables_by_id.get(self._id)

    def addresses(self) -> tuple[int, Mapping[str, Mapping[str, Any]]]:
        """A number that changes when sensors do, and each sensor's key by its address."""
        table = self.table()
        if table is None:
            return -1, {}
        rows = self._state().rows(self._id)
        # Every change of rows makes a version or ends a live one.
        version = hash((rows.count, len(rows.live_sids())))
        current = rows.current()
        keys = [current.column(name).to_pylist() for name in table.key]
        addresses = current.column("_address").to_pylist()
        return version, {
            address: dict(zip(table.key, key, strict=True))
            for address, key in zip(addresses, zip(*keys, strict=True), strict=True)
            if address
        }

    def push(self, rows: Sequence[Mapping[str, Any]], wake: Callable[[], None]) -> PushDelivery:
        """Start storing rows; `wake` is called, from any thread, when `advance` may have news."""
        return PushDelivery(lambda: self._push(self._name, rows), self._name, len(rows), self, wake)


SourceState = Literal["connecting", "connected", "backing off", "stopped"]
_LOGGER = logging.getLogger("penstock.mqtt")
BACK_OFF = BackOff(least_s=0.2, most_s=30.0)
_LOOK_S = 0.25  # how often sensors and retries are looked at when nothing else happens
_WAITING_MAX_BYTES = 64 << 20  # of payloads that wait for the batch before them
_BURST = 2_000  # messages between two looks at everything else
_FAREWELL_S = 3.0


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """How a source is doing. `target` and `last_error` hold no secrets."""

    state: SourceState
    target: str
    in_flight: int
    connects: int
    last_error: str | None


class MqttSource:
    """Reads for one table, with or without queries, until it is stopped. All work happens in one thread; `facts` may be asked from any.

    `identity` names this server and this table, the same after every start.
    """

    def __init__(
        self, inbox: TableInbox, options: Mapping[str, Any], identity: str, rules: AddressRules | None = None
    ) -> None:
        self.inbox = inbox
        self.options = options
        self.identity = identity
        self.rules = rules or AddressRules()
        self._subscriptions = Subscriptions(options["topic"], inbox)
        self._state: SourceState = "connecting"
        self._last_error: str | None = None
        self._connects = 0
        self._waiting: list[MessageIn] = []
        self._waiting_bytes = 0
        self._sending: list[MessageIn] = []  # they are being stored
        self._delivery: PushDelivery | None = None  # of these; None where nothing of them is to be stored
        # Read, but the connection broke before they were acknowledged: their repeats are not stored again.
        self._unsaid: dict[int, MessageIn] = {}
        self._reader: PayloadReader | None = None
        self._stopped = threading.Event()
        self._forever = False
        self._woken_r, self._woken_w = socket.socketpair()
        self._woken_r.setblocking(False)
        self._woken_w.setblocking(False)
        self._failures = 0
        table = inbox.table()
        self.service = Service(f"mqtt {table.name if table is not None else identity}", self._step)

    def stop(self, forever: bool = False) -> None:
        """Ask it to end; returns at once. `forever`: it is not started again, so the broker need keep nothing."""
        self._forever = forever
        self._stopped.set()
        self._wake()

    def facts(self) -> SourceFacts:
        in_flight = len(self._waiting) + len(self._sending)
        return SourceFacts(self._state, str(self.options["url"]), in_flight, self._connects, self._last_error)

    # -- the thread

    def _step(self) -> float | None:
        """One connection, from its beginning to its end, and the rest after it; None when stopped."""
        if not self._stopped.is_set():
            connects = self._connects
            try:
                self._state = "connecting"
                self._stay_connected()
            except Exception as cause:
                self._note(cause)
            self._failures = 0 if self._connects > connects else self._failures + 1
        if self._stopped.is_set():
            self._state = "stopped"
            self._woken_r.close()
            self._woken_w.close()
            return None
        self._state = "backing off"
        self._rest(BACK_OFF.spread_s(self._failures + 1))
        return 0.0

    def _rest(self, pause_s: float) -> None:
        """Wait before the next connection, while what was received goes on to be stored."""
        until_s = time.monotonic() + pause_s
        while not self._stopped.is_set() and (left_s := until_s - time.monotonic()) > 0:
            select.select([self._woken_r], [], [], min(left_s, _LOOK_S))
            self._clear_wake()
            self._move_on(None)

    def _stay_connected(self) -> None:
        client = Client(self.options, self.identity, self._take, self.rules)
        try:
            while not self._stopped.is_set():
                self._turn(client)
            self._say_farewell(client)
        finally:
            client.close()
            self._forget_connection()

    def _turn(self, client: Client) -> None:
        """Read what there is, start or finish a delivery, say what is stored."""
        full = self._is_full()
        client.wait(self._woken_r, read=not full, timeout_s=_LOOK_S)
        self._clear_wake()
        if not full:
            client.read(lambda: not self._is_full(), _BURST)
        if client.connected:
            if not client.session_present:
                self._unsaid.clear()
            self._subscriptions.follow(client)
            if self._state != "connected" and client.is_settled:
                self._begin(client)
        self._move_on(client)
        client.tick()

    def _begin(self, client: Client) -> None:
        """The broker knows what we want."""
        self._state = "connected"
        self._connects += 1
        self._last_error = None
        if client.refused_topics:
            self._note(PermissionError(f"the broker refuses {', '.join(client.refused_topics[:5])}"))

    def _is_full(self) -> bool:
        in_flight = len(self._waiting) + len(self._sending)
        return bool(in_flight >= self.options["in_flight"] or self._waiting_bytes >= _WAITING_MAX_BYTES)

    def _take(self, message: MessageIn) -> None:
        self._waiting.append(message)
        self._waiting_bytes += len(message.payload or b"")

    def _move_on(self, client: Client | None) -> None:
        """Finish the batch under way and begin the next."""
        if self._sending:
            if self._delivery is not None and not self._delivery.advance():
                return
            self._acknowledge(client)
        if self._waiting:
            messages, self._waiting, self._waiting_bytes = self._waiting, [], 0
            self._delivery = self._deliver(messages)
            self._sending = messages
            if self._delivery is None:
                self._acknowledge(client)

    def _acknowledge(self, client: Client | None) -> None:
        """Say that the batch under way is done. Where the connection breaks meanwhile, it is said again later."""
        if client is not None:
            mids = [m.mid for m in self._sending if m.qos and m.connection == client.number]
            client.acknowledge(mids)
            for mid in mids if self._unsaid else ():
                self._unsaid.pop(mid, None)
        self._sending = []

    def _deliver(self, messages: list[MessageIn]) -> PushDelivery | None:
        """The rows of messages, on their way; None where there are none."""
        table = self.inbox.table()
        self.inbox.came(len(messages), sum(len(message.payload or b"") for message in messages))
        if table is None:
            return None
        if self._reader is None or self._reader.table is not table:
            self._reader = PayloadReader(table, self.options)
        reader = self._reader
        rows: list[dict[str, Any]] = []
        for message in messages:
            if message.qos and self._unsaid and self._was_read(message):
                continue
            if message.retained and not self.options["retained"]:
                continue
            if message.payload is None:
                self._refuse_long(message)
                continue
            try:
                levels = self._subscriptions.levels(message.topic)
                rows += reader.read(message.topic, levels, message.payload)
            except PenstockError as problem:
                said = problem.message if problem.hint is None else f"{problem.message}; {problem.hint}"
                self.inbox.refuse(problem.condition, f"{message.topic}: {said}")
        if reader.ignored:
            self.inbox.ignore(reader.ignored)
            reader.ignored.clear()
        return self.inbox.push(rows, self._wake) if rows else None

    def _refuse_long(self, message: MessageIn) -> None:
        problem = error("body_too_large", limit=self.rules.line_max_bytes)
        self.inbox.refuse(problem.condition, f"{message.topic[:100]}: {problem.message} (line_max_bytes)")

    def _was_read(self, message: MessageIn) -> bool:
        """Whether this is the repeat of a message that was read before a connection broke.

        It was never acknowledged, so the broker cannot have given its number to another one, unless it lost the session.
        It is acknowledged with its batch, which is stored after the one that has the message, or is the same one.
        """
        known = self._unsaid.get(message.mid)
        if known is None or known.connection == message.connection:
            return False
        if message.repeated and (known.topic, known.payload) == (message.topic, message.payload):
            return True
        del self._unsaid[message.mid]
        return False

    def _forget_connection(self) -> None:
        """What was read goes on to be stored; the broker sends it again, unless it was killed and has forgotten it."""
        for message in (*self._sending, *self._waiting):
            if message.qos:
                self._unsaid.setdefault(message.mid, message)
        self._subscriptions.forget()

    def _say_farewell(self, client: Client) -> None:
        """Store and acknowledge what was read; the broker keeps the rest for the next start."""
        until_s = time.monotonic() + _FAREWELL_S
        while (self._waiting or self._sending) and time.monotonic() < until_s:
            client.wait(self._woken_r, read=False, timeout_s=0.05)
            self._clear_wake()
            self._move_on(client)
        client.say_goodbye(self._forever)

    # -- waking and noting

    def _wake(self) -> None:
        try:
            self._woken_w.send(b"x")
        except (BlockingIOError, OSError):
            # Woken already, or gone.
            return

    def _clear_wake(self) -> None:
        try:
            while self._woken_r.recv(4096):
                pass
        except (BlockingIOError, OSError):
            return

    def _note(self, cause: Exception) -> None:
        text = without(one_line(cause), secrets_of({"password": str(self.options["password"])}))
        if text != self._last_error:
            _LOGGER.warning("%s: %s", self.options["url"], text)
        self._last_error = text[:500]


class Subscriptions:
    """`follow` keeps the broker's subscriptions equal to what the table wants; `levels` says what a topic means."""

    def __init__(self, pattern: TopicPattern | None, inbox: TableInbox) -> None:
        self._pattern = pattern
        self._inbox = inbox
        self._asked: set[str] = set()
        self._version: int | None = None
        self._by_topic: Mapping[str, Mapping[str, Any]] = {}

    def forget(self) -> None:
        """The connection is gone; on the next one everything is asked for again."""
        self._asked = set()
        self._version = None

    def follow(self, client: Client) -> None:
        if self._pattern is not None:
            wanted = {self._pattern.filter}
        else:
            version, found = self._inbox.addresses()
            if version == self._version:
                return
            self._version = version
            self._by_topic = {topic: key for topic, key in found.items() if self._is_topic(topic)}
            wanted = set(self._by_topic)
        if wanted != self._asked:
            client.subscribe(sorted(wanted - self._asked))
            client.unsubscribe(sorted(self._asked - wanted))
            self._asked = wanted

    def levels(self, topic: str) -> Mapping[str, Any]:
        """Values of static columns; an error where the topic belongs to no sensor."""
        found = self._by_topic.get(topic) if self._pattern is None else self._pattern.values(topic)
        if found is None:
            raise error("invalid_parameter", detail="this topic is not one that the table asks for")
        return found

    def _is_topic(self, address: str) -> bool:
        try:
            check_filter(address)
            if "+" in address or "#" in address:
                raise ValueError("it has a wildcard, but is the address of one sensor")
        except ValueError as problem:
            if address:
                self._inbox.refuse("invalid_parameter", f"address {address[:100]}: {problem}")
            return False
        return True
