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
    last_error_us: int | None
    last_reading_us: int | None
    opened_us: int | None
    holders: int


class OpenedSensor(Task):
    """The manager's own record. Steps (open, read, close) are run by one thread at a time.

    `wanted` and `table` and `address` are set with the demand; the rest belongs to the step.
    """

    __slots__ = (
        "address",
        "ending",
        "errors",
        "failure",
        "failures",
        "idle_s",
        "last_error",
        "last_error_us",
        "last_reading_us",
        "observed",
        "opened_us",
        "readings",
        "reopen",
        "sensor",
        "shown",
        "sid",
        "table",
        "wanted",
    )

    def __init__(self, table: Table, sid: int, address: str) -> None:
        super().__init__(table.id)
        self.table = table
        self.sid = sid
        self.address = address
        self.wanted = False
        self.reopen = False  # the address or the fields changed: close, then open again
        self.sensor: AnySensor | None = None
        self.shown: State = "closed"
        self.observed = False  # the journal says that it is open
        self.failure: Exception | None = None  # what a push sensor gave up with
        self.ending = False  # a push sensor said END
        self.failures = 0  # in a row, for the back-off
        self.idle_s = 0.0  # pause after the last NO_VALUE
        self.readings = 0
        self.errors = 0
        self.last_error: str | None = None
        self.last_error_us: int | None = None
        self.last_reading_us: int | None = None
        self.opened_us: int | None = None

    def note_error(self, text: str, now_us: int, count: int = 1) -> None:
        stream = self.table.stream
        options = stream.options if stream is not None else {}
        self.errors += count
        # What a sensor raises may repeat what it signs in with.
        self.last_error = without(text, secrets_of({**options, "address": self.address}))[:500]
        self.last_error_us = now_us

    def snapshot(self, now_us: int, holders: int) -> SensorState:
        shown: State = "hung" if self.hung else self.shown
        if shown == "open":
            quiet_since_us = max(self.last_reading_us or 0, self.opened_us or 0)
            if now_us - quiet_since_us > self.table.options.idle_us:
                shown = "idle"
        return SensorState(
            self.sid,
            self.address,
            shown,
            self.readings,
            self.errors,
            self.last_error,
            self.last_error_us,
            self.last_reading_us,
            self.opened_us,
            holders,
        )
