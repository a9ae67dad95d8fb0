"""The stream-type interface: `init`, `read`, `close`, and what a `read` may answer.

A pull sensor is asked by the stream manager, from one thread at a time, and should not block: it answers
NO_VALUE and may say when it is worth asking again. A push sensor hands readings over from a thread of its own.
A sensor that raises is closed, shown with its error, and opened anew after a pause.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import pyarrow as pa

from penstock.catalog.model import Table
from penstock.clock import Clock
from penstock.sensors.address_rules import AddressRules
from penstock.types import Field

Row = tuple[Any, ...]
Mode = Literal["pull", "push", "outside", "subscribed"]


class ReadResult(Enum):
    """What a `read` found: values, nothing yet, or that nothing will ever come again."""

    NEW_VALUE = "new value"
    NO_VALUE = "no value"
    END = "end"


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer of a sensor. NEW_VALUE carries `rows` (tuples in field order) or, for bulk, a `batch`.

    Values are Python values as JSON has them (times as microseconds), or texts as CSV spells them: in `rows`
    when `texts` says so, in a `batch` by the type of its columns. A value that does not fit its field is
    counted against the sensor and its row left out. `times_us` holds one time per row; without it a reading happened when it was read. `next_due_us` is the
    time before which asking again is pointless. `bad` counts what the sensor sent and the
    reader could not understand, with `problem` saying why: it is shown, and the sensor stays open.
    """

    answer: ReadResult
    rows: Sequence[Row] = ()
    times_us: Sequence[int] | np.ndarray[Any, Any] | None = None
    batch: pa.RecordBatch | None = None
    texts: bool = False
    next_due_us: int | None = None
    bad: int = 0
    problem: str | None = None

    @property
    def count(self) -> int:
        return len(self.rows) if self.batch is None else self.batch.num_rows


NO_VALUE = Reading(ReadResult.NO_VALUE)
END = Reading(ReadResult.END)


def new_value(values: Row, time_us: int | None = None, next_due_us: int | None = None) -> Reading:
    """One row, as most sensors have it."""
    return Reading(ReadResult.NEW_VALUE, (values,), None if time_us is None else (time_us,), next_due_us=next_due_us)


def no_value(next_due_us: int) -> Reading:
    """Nothing yet, and nothing before that time."""
    return Reading(ReadResult.NO_VALUE, next_due_us=next_due_us)


@dataclass(frozen=True, slots=True)
class Option:
    """One word of OPTIONS (...). `parse` raises ValueError with a sentence; `default` None means required."""

    name: str
    default: str | None
    sentence: str
    parse: Callable[[str], Any] = str


class _AtAddress:
    """What a sensor is made with.

    `OPTIONS` declares what the class understands; left empty, `options` holds the texts of the stream type.
    The address comes from a row, so a sensor opens files and connections by its `rules` only; they are set before `init`.
    """

    OPTIONS: ClassVar[tuple[Option, ...]] = ()
    rules: AddressRules = AddressRules()

    def __init__(self, address: str, fields: tuple[Field, ...], options: Mapping[str, Any], clock: Clock) -> None:
        self.address = address
        self.fields = fields
        self.options = options
        self.clock = clock


class Sensor(_AtAddress, ABC):
    """A sensor that is asked. Life: init, read until END or until no query wants it, close. After close comes nothing."""

    @property
    def resumes(self) -> bool:
        """Whether `resume` means something to this sensor."""
        return False

    def resume(self, newest_us: int) -> None:  # most sensors only know the present
        """The log holds readings up to this time; a sensor that replays the past continues after it.

        Called before `init`, for tables that keep the sensors' own times.
        """

    def init(self) -> None:  # a sensor without set-up is a good sensor
        """Get ready to be read; raise if the sensor cannot be reached."""

    @abstractmethod
    def read(self) -> Reading:
        """What there is now, without waiting for more."""

    def close(self) -> None:
        """Let go of everything. Called once after `init` began, also when it failed."""


class Deliver(Protocol):
    """Where a push sensor hands readings over. Waits while the server is too busy to take more."""

    def __call__(self, reading: Reading) -> None: ...

    def failed(self, cause: BaseException) -> None:
        """Give up: the sensor is closed, the cause shown, and it is opened anew after a pause."""


class PushSensor(_AtAddress, ABC):
    """A sensor that calls. `init` starts the calls and returns; after `close` returned there are none."""

    @abstractmethod
    def init(self, deliver: Deliver) -> None:
        """Start handing readings to `deliver`; raise if the sensor cannot be reached."""

    @abstractmethod
    def close(self) -> None:
        """Stop. Called once after `init` began, also when it failed."""


AnySensor = Sensor | PushSensor
Factory = Callable[[str, tuple[Field, ...], Mapping[str, Any], Clock], AnySensor]


@dataclass(frozen=True, slots=True)
class Connector:
    """How one kind of sensor is reached, as data.

    `mode` is pull, push, or outside: readings of such a table come through the HTTP API, and nothing is
    ever opened; or subscribed: one source (`streams.sources`) reads for all sensors of a table at once. `check` looks at fields and parsed
    options together and raises a named error; so does `check_table`, when a table with such a stream is created, and
    `check_address`, when a row with an address is written: what it can tell without waiting for a disk or a name server.
    """

    name: str
    sentence: str
    mode: Mode
    options: tuple[Option, ...] = ()
    factory: Factory | None = None
    check: Callable[[tuple[Field, ...], Mapping[str, Any]], None] | None = None
    free_options: bool = False
    check_table: Callable[[Table, Mapping[str, Any]], None] | None = None
    check_address: Callable[[str, AddressRules], None] | None = None


def connector_of(name: str, sensor: type[Sensor] | type[PushSensor]) -> Connector:
    """The description that a bare sensor class implies."""
    sentence = (inspect.getdoc(sensor) or sensor.__name__).splitlines()[0]
    mode: Mode = "push" if issubclass(sensor, PushSensor) else "pull"
    return Connector(name, sentence, mode, sensor.OPTIONS, sensor, free_options=not sensor.OPTIONS)
