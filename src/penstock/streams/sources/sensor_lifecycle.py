"""One step of one sensor's life: open it, read it, close it, or wait after a failure.

Whatever a sensor raises stays with that sensor: it is counted, shown, and tried again after a pause that
doubles each time in a row, with jitter, up to a minute.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from penstock.back_off import BackOff
from penstock.catalog.model import Table
from penstock.clock import SECOND, Clock
from penstock.errors import one_line
from penstock.sensors.address_rules import AddressRules
from penstock.sensors.base import PushSensor, Reading, ReadResult, Sensor
from penstock.sensors.registry import create_sensor
from penstock.settings import Settings
from penstock.streams.sources.polling import PollLimits
from penstock.streams.sources.sensor_forwarder import Outbox, ReadChunk, SensorForwarder
from penstock.streams.sources.sensor_state import OpenedSensor

# newest_us(table, sid): the newest time that the log holds of a sensor, or None
NewestTime = Callable[[Table, int], int | None]
_BACK_OFF = BackOff(least_s=0.2, most_s=60.0)


@dataclass(frozen=True, slots=True)
class ManagerLimits:
    """How the manager paces sensors that do not say themselves when to ask again, and those that fail."""

    poll: PollLimits = field(default_factory=PollLimits)
    idle_least_s: float = 0.005
    idle_most_s: float = 0.1
    idle_polls_per_s: float = 10_000.0
    due_most_s: float = 5.0
    back_off: BackOff = _BACK_OFF
    full_s: float = 0.02
    queue_max_bytes: int = Settings().queue_max_bytes


class SensorLifecycle:
    """Runs steps for the poller. `reschedule` asks the poller for a step now; `stop` makes late steps close."""

    def __init__(
        self,
        clock: Clock,
        forwarder: SensorForwarder,
        limits: ManagerLimits,
        reschedule: Callable[[OpenedSensor], None],
        newest_us: NewestTime,
        rules: AddressRules | None = None,
    ) -> None:
        self._rules = rules
        self._newest_us = newest_us
        self._clock = clock
        self._forwarder = forwarder
        self._limits = limits
        self._reschedule = reschedule
        self._lock = threading.Lock()
        self._open_count = 0
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def step(self, opened: OpenedSensor) -> float | None:
        """Do what is next for a sensor. Answers the pause until the step after, or None for none."""
        try:
            delay_s = self._next(opened)
        except Exception as cause:
            delay_s = self._back_off(opened, cause)
        if self._stopped:
            # A step that hung until the manager was closed comes back here, and is not called again.
            self._shut(opened)
            return None
        return delay_s

    def _next(self, opened: OpenedSensor) -> float | None:
        if opened.failure is not None:
            cause, opened.failure = opened.failure, None
            if opened.sensor is not None:
                raise cause
        if opened.ending:
            opened.ending = False
            self._end(opened)
            return None
        if opened.reopen or not opened.wanted:
            self._shut(opened)
            opened.failures = 0
            if not opened.wanted:
                opened.shown = "ended" if opened.shown == "ended" and not opened.reopen else "closed"
                return None
            opened.reopen = False
            opened.shown = "opening"
        if opened.shown == "ended":
            return None
        if opened.sensor is None:
            return self._open(opened)
        if isinstance(opened.sensor, PushSensor):
            return None
        return self._read(opened, opened.sensor)

    def _open(self, opened: OpenedSensor) -> float | None:
        opened.shown = "opening"
        stream = opened.table.stream
        assert stream is not None and stream.connector is not None
        sensor = create_sensor(
            stream.connector, opened.address, stream.fields, stream.options, self._clock, self._rules
        )
        if sensor is None:
            return None
        opened.sensor = sensor
        with self._lock:
            self._open_count += 1
        if isinstance(sensor, PushSensor):
            sensor.init(_Delivery(self, opened, sensor))
        else:
            if sensor.resumes and opened.table.options.time == "valid":
                newest_us = self._newest_us(opened.table, opened.sid)
                if newest_us is not None:
                    sensor.resume(newest_us)
            sensor.init()
        opened.opened_us = self._clock.now_us()
        opened.shown = "open"
        opened.idle_s = 0.0
        if not opened.observed:
            # The forwarder asks for the next step once the opening is journalled.
            opened.observed = True
            self._forwarder.note(opened.table.id, opened.sid, "opened")
            return None
        return 0.0

    def _read(self, opened: OpenedSensor, sensor: Sensor) -> float | None:
        outbox = self._forwarder.outbox(opened.table)
        if outbox.is_full:
            return self._limits.full_s
        reading = sensor.read()
        opened.shown = "open"
        if reading.answer is ReadResult.END:
            self._end(opened)
            return None
        self._take(opened, reading, outbox)
        if reading.next_due_us is not None:
            delay_s = (reading.next_due_us - self._clock.now_us()) / SECOND
            return min(max(delay_s, 0.0), self._limits.due_most_s)
        if reading.count:
            opened.idle_s = 0.0
            return 0.0
        # The more sensors have nothing to say, the longer each waits: asking them costs a fixed share of time.
        most_s = max(self._limits.idle_most_s, self._open_count / self._limits.idle_polls_per_s)
        opened.idle_s = min(max(2 * opened.idle_s, self._limits.idle_least_s), most_s)
        return opened.idle_s

    def _take(self, opened: OpenedSensor, reading: Reading, outbox: Outbox) -> None:
        """Put what a sensor gave on its way, and count it."""
        now_us = self._clock.now_us()
        if reading.bad:
            opened.note_error(reading.problem or "a reading that could not be understood", reading.bad)
        count = reading.count
        if count:
            opened.failures = 0
            opened.readings += count
            opened.last_reading_us = now_us
            outbox.add(ReadChunk(opened, reading, now_us))
            self._forwarder.wake()

    def _end(self, opened: OpenedSensor) -> None:
        self._shut(opened, "ended")
        opened.shown = "ended"

    def _shut(self, opened: OpenedSensor, how: Literal["closed", "ended"] = "closed") -> None:
        """Close the sensor if it is open, and journal that it is not observed any more."""
        try:
            self._close_sensor(opened)
        finally:
            if opened.observed:
                opened.observed = False
                self._forwarder.note(opened.table.id, opened.sid, how)

    def _close_sensor(self, opened: OpenedSensor) -> None:
        sensor, opened.sensor = opened.sensor, None
        if sensor is None:
            return
        with self._lock:
            self._open_count -= 1
        try:
            sensor.close()
        except Exception as cause:
            opened.note_error(f"while closing: {one_line(cause)}")

    def _back_off(self, opened: OpenedSensor, cause: Exception) -> float | None:
        """Close a sensor that failed and try again later; each time in a row twice as late, up to a minute."""
        opened.note_error(one_line(cause))
        self._close_sensor(opened)
        if not opened.wanted:
            return 0.0
        opened.shown = "backing off"
        opened.failures += 1
        return self._limits.back_off.spread_s(opened.failures)

    def note_hung(self, opened: OpenedSensor) -> None:
        seconds = self._limits.poll.hang_s
        opened.note_error(f"no answer for {seconds:g} s; its thread was left to it")

    def note_held(self, opened: OpenedSensor) -> None:
        if opened.shown != "backing off":
            opened.shown = "backing off"
            opened.note_error("waits: too many sensors of this table hang")

    def take_pushed(self, opened: OpenedSensor, sensor: PushSensor, reading: Reading) -> None:
        """A push sensor calls. Waits while the table's outbox is full; what a closed sensor says is dropped."""
        outbox = self._forwarder.outbox(opened.table)
        while outbox.is_full and opened.sensor is sensor and not self._stopped:
            time.sleep(self._limits.full_s)
        if opened.sensor is not sensor:
            return
        if reading.answer is ReadResult.END:
            opened.ending = True
            self._reschedule(opened)
        else:
            self._take(opened, reading, outbox)

    def fail_pushed(self, opened: OpenedSensor, sensor: PushSensor, cause: BaseException) -> None:
        if opened.sensor is sensor:
            opened.failure = cause if isinstance(cause, Exception) else RuntimeError(str(cause))
            self._reschedule(opened)


class _Delivery:
    """The `Deliver` of one opening of one push sensor."""

    def __init__(self, stepper: SensorLifecycle, opened: OpenedSensor, sensor: PushSensor) -> None:
        self._stepper = stepper
        self._opened = opened
        self._sensor = sensor

    def __call__(self, reading: Reading) -> None:
        self._stepper.take_pushed(self._opened, self._sensor, reading)

    def failed(self, cause: BaseException) -> None:
        self._stepper.fail_pushed(self._opened, self._sensor, cause)
