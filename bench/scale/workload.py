"""Sensors that send once a minute, for days: what they send, and what is right about it.

A value follows from sensor and minute. It is a whole number of tenths, which no double holds exactly: cells take the room that they
take for real readings. Each sensor has a moment of its own within the minute, so that BEGIN of a window cuts a slice in most cycles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

TABLE = "CREATE TABLE m (sid INT PRIMARY KEY, site TEXT, r STREAM (x DOUBLE)) WITH (time = 'valid')"
SITES = 20
MINUTE_US, DAY_MINUTES = 60_000_000, 1_440
INSERT_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Sums:
    """What a group's readings add up to."""

    count: int
    total: float
    highest: float


@dataclass(frozen=True, slots=True)
class Minutely:
    """So many sensors, from a time on. Minutes count from there."""

    sensors: int
    origin_us: int

    def inserts(self) -> Iterator[str]:
        for first in range(0, self.sensors, INSERT_ROWS):
            numbers = range(first, min(self.sensors, first + INSERT_ROWS))
            yield f"INSERT INTO m VALUES {', '.join(f'({n}, {site_of(n)!r}, NULL)' for n in numbers)}"

    def readings(self, first: int, end: int) -> pa.RecordBatch:
        """Readings by their numbers, in the order of time: the first minute has the first `sensors` of them."""
        numbers = np.arange(first, end)
        minute, sensor = np.divmod(numbers, self.sensors)
        return pa.record_batch(
            {
                "sid": pa.array(sensor.astype(np.int32)),
                "ts": pa.array(self._us(sensor, minute)).cast(pa.timestamp("us", tz="UTC")),
                "x": pa.array(values(sensor, minute)),
            }
        )

    def newest_us(self, sent: int) -> int:
        """NOW after so many readings."""
        minute, sensor = divmod(sent - 1, self.sensors)
        return int(self._us(np.array(sensor), np.array(minute)))

    def _us(self, sensor: np.ndarray, minute: np.ndarray) -> np.ndarray:
        return self.origin_us + minute * MINUTE_US + self._moment_us(sensor)

    def _moment_us(self, sensor: np.ndarray) -> np.ndarray:
        """When within the minute, in whole milliseconds."""
        return sensor * (MINUTE_US // 1000) // self.sensors * 1000

    def sums(self, sensors: range, low_us: int, high_us: int, sent: int) -> Sums:
        """Of some sensors over [low_us, high_us], of the first `sent` readings of all."""
        count, total, highest = 0, 0.0, -np.inf
        for sensor in sensors:
            begin_us = self.origin_us + int(self._moment_us(np.array(sensor)))
            first = max(0, -((begin_us - low_us) // MINUTE_US))
            mine = (sent - sensor + self.sensors - 1) // self.sensors
            end = min(mine, (high_us - begin_us) // MINUTE_US + 1)
            if first < end:
                found = values(np.array(sensor), np.arange(first, end))
                count, total = count + len(found), total + float(found.sum())
                highest = max(highest, float(found.max()))
        return Sums(count, total, highest)


def values(sensor: np.ndarray, minute: np.ndarray) -> np.ndarray:
    """0 to 100, in tenths."""
    found: np.ndarray = (sensor * 7_919 + minute * 104_729) % 100_003 % 1_000 / 10
    return found


def site_of(sensor: int) -> str:
    return f"site {sensor % SITES}"
