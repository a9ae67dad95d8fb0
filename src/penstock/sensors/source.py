"""A way to reach all sensors of a table at once, such as a broker that many of them publish to.

A source runs in a thread of its own from the moment its table exists until the table is dropped, with or without queries. It makes rows of what
arrives and hands them to its `Inbox`; what has to be acknowledged outside is acknowledged when the delivery is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from penstock.catalog.model import Table
from penstock.clock import Clock
from penstock.sensors.address_rules import AddressRules
from penstock.services import Service

SourceState = Literal["connecting", "connected", "backing off", "stopped"]


class Delivery(Protocol):
    """Rows on their way to the log."""

    def advance(self) -> bool:
        """Whether everything is on disk or refused for good. Tries again what could not be written; never raises."""
        ...


class Inbox(Protocol):
    """Where a source puts what came, and what it has to know of its table."""

    def table(self) -> Table | None:
        """The table as it is defined now; None once it was dropped."""
        ...

    def addresses(self) -> tuple[int, Mapping[str, Mapping[str, Any]]]:
        """A number that changes when sensors do, and each sensor's key by its address."""
        ...

    def push(self, rows: Sequence[Mapping[str, Any]], wake: Callable[[], None]) -> Delivery:
        """Start storing rows; `wake` is called, from any thread, when `advance` may have news."""
        ...

    def came(self, messages: int, size: int) -> None: ...

    def refuse(self, condition: str, message: str, count: int = 1) -> None: ...

    def ignore(self, names: Iterable[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """How a source is doing. `target` and `last_error` hold no secrets."""

    state: SourceState
    target: str
    in_flight: int
    connects: int
    last_error: str | None


class Source(ABC):
    """Life: start, stop, join. `identity` names this server and this table, the same after every start.

    `service` is the thread that it works in, for the list of services; None where it has none of ours.
    `rules` are set before `start`. Options are an admin's; messages have a maximum length like lines.
    """

    service: Service | None = None
    rules: AddressRules = AddressRules()

    def __init__(self, inbox: Inbox, options: Mapping[str, Any], clock: Clock, identity: str) -> None:
        self.inbox = inbox
        self.options = options
        self.clock = clock
        self.identity = identity

    @abstractmethod
    def start(self) -> None:
        """Begin; returns at once, and keeps trying where the other side does not answer."""

    @abstractmethod
    def stop(self, forever: bool = False) -> None:
        """Ask it to end; returns at once. `forever`: it is not started again, so the other side need keep nothing."""

    @abstractmethod
    def join(self, timeout_s: float) -> None:
        """Wait until it has ended."""

    @abstractmethod
    def facts(self) -> SourceFacts: ...


SourceFactory = Callable[[Inbox, Mapping[str, Any], Clock, str], Source]
