"""One sensor that is, was or should be open: what the manager knows about it, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.catalog.model import Table
from penstock.catalog.secrets import secrets_of, without
from penstock.sensors.base import AnySensor
from penstock.streams.sources.polling import Task

State = Literal["opening", "open", "idle", "backing off", "hung", "ended", "closed"]


@dataclass(frozen=True, slots=True)
class SensorState:
    """A sensor as SHOW and penstock.sensors list it. Counts run since the server started."""

    sid: int
    address: str
    state: State
    readings: int
    errors: int
    last_error: str | None
    holders: int


@dataclass(slots=True, eq=False)
class OpenedSensor(Task):
    """The manager's own record. Steps (open, read, close) are run by one thread at a time.

    `wanted` and `table` and `address` are set with the demand; the rest belongs to the step.
    """

    table: Table
    sid: int
    address: str
    wanted: bool = False
    reopen: bool = False  # the address or the fields changed: close, then open again
    sensor: AnySensor | None = None
    shown: State = "closed"
    observed: bool = False  # the journal says that it is open
    failure: Exception | None = None  # what a push sensor gave up with
    ending: bool = False  # a push sensor said END
    failures: int = 0  # in a row, for the back-off
    idle_s: float = 0.0  # pause after the last NO_VALUE
    readings: int = 0
    errors: int = 0
    last_error: str | None = None
    last_reading_us: int | None = None
    opened_us: int | None = None

    def __post_init__(self) -> None:
        Task.__init__(self, self.table.id)  # not by super(): a class with slots is made anew

    def note_error(self, text: str, count: int = 1) -> None:
        stream = self.table.stream
        options = stream.options if stream is not None else {}
        self.errors += count
        # What a sensor raises may repeat what it signs in with.
        self.last_error = without(text, secrets_of({**options, "address": self.address}))[:500]

    def snapshot(self, now_us: int, holders: int) -> SensorState:
        shown: State = "hung" if self.hung else self.shown
        if shown == "open":
            quiet_since_us = max(self.last_reading_us or 0, self.opened_us or 0)
            if now_us - quiet_since_us > self.table.options.idle_us:
                shown = "idle"
        return SensorState(self.sid, self.address, shown, self.readings, self.errors, self.last_error, holders)
