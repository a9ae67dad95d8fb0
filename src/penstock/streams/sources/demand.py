"""Demand: which holders want which sensors of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.streams.sources.sensor_state import OpenedSensor

NO_SENSORS = np.zeros(0, dtype=np.int32)


class TableDemand:
    """Which holders want which sensors of one table, and the records of sensors that were ever wanted."""

    __slots__ = ("counts", "holders", "seen", "sensors")

    def __init__(self) -> None:
        self.seen: object = None  # the table and its rows as of the last `refresh`
        self.holders: dict[str, NDArray[np.int32]] = {}  # sorted sids
        self.counts = np.zeros(0, dtype=np.int32)  # sid -> number of holders
        self.sensors: dict[int, OpenedSensor] = {}

    def replace(self, holder: str, sids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Set what a holder wants. Answers the sids that have become wanted, and those that are not wanted any more."""
        before = self.holders.pop(holder, NO_SENSORS)
        if len(sids):
            self.holders[holder] = sids
            if int(sids[-1]) >= len(self.counts):
                self.counts = np.concatenate([self.counts, np.zeros(int(sids[-1]) + 64, dtype=np.int32)])
        touched = np.union1d(before, sids)
        was = self.counts[touched] > 0
        self.counts[before] -= 1
        self.counts[sids] += 1
        return np.asarray(touched[was != (self.counts[touched] > 0)], dtype=np.int32)

    def wanted(self, sid: int) -> bool:
        return sid < len(self.counts) and bool(self.counts[sid])
