"""DEDUPLICATE BY: which readings of a sensor repeat an earlier one's key.

A reading is a repeat when its sensor has an accepted reading with an equal key at most `within` away in `ts`.
Remembered are, per sensor, the keys of the readings from `within` before its newest on; that is exact unless a
reading comes out of order by more than that. NULL equals NULL here, and NaN equals NaN. Under
`out_of_order = 'clamp'` the time as stored counts. `rules` decides; this file gives each key a number (`keys`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.catalog.model import TIME_COLUMN, Table
from penstock.streams.ingest.keys import Column, Ints, KeyNumbers, ValueCodes, words_of
from penstock.streams.ingest.rules import NO_TIME

Sids = np.ndarray[Any, np.dtype[np.int32]]

_SLACK = 65_536


def key_fields(table: Table) -> list[str]:
    """The logged columns that make up a key; static key columns are the sensor itself, which is always part of it."""
    wanted = table.options.deduplicate
    if wanted is None or table.stream is None:
        return []
    logged = {field.name for field in table.stream.fields} | {TIME_COLUMN}
    prefix = f"{table.stream.name}."
    return [name.removeprefix(prefix) for name in wanted.fields if name.removeprefix(prefix) in logged]


class KeyMemory:
    """Numbers for keys, and the newest accepted time by number. Grows with the keys inside `within`, not beyond."""

    def __init__(self, within_us: int, fields: int) -> None:
        self.within_us = within_us
        self.times: Ints = np.full(1024, NO_TIME, dtype=np.int64)
        self._keys = KeyNumbers(fields + 2)  # the sensor, the fields, and which of them are NULL
        self._codes = [ValueCodes() for _ in range(fields)]
        self._swept = 0

    def __len__(self) -> int:
        return self._keys.count

    def numbers(self, sids: Ints | Sids, columns: Sequence[Column]) -> Ints:
        """A number per reading; equal ones for equal keys of the same sensor."""
        rows = np.zeros((len(sids), len(self._codes) + 2), dtype=np.int64)
        rows[:, 0] = sids
        for i, (column, codes) in enumerate(zip(columns, self._codes, strict=True)):
            rows[:, 1 + i], nulls = words_of(column, codes)
            if nulls is not None:
                rows[:, -1] |= nulls.astype(np.int64) << i
        found = self._keys.find(rows)
        if len(self) > len(self.times):
            grown = np.full(max(len(self), 2 * len(self.times)), NO_TIME, dtype=np.int64)
            grown[: len(self.times)] = self.times
            self.times = grown
        return found

    @property
    def needs_sweep(self) -> bool:
        return len(self) > 2 * self._swept + _SLACK

    def sweep(self, newest: Ints) -> None:
        """Forget what no reading can repeat any more. Numbers change: no caller may keep one across a sweep."""
        times = self.times[: len(self)]
        kept = (times != NO_TIME) & (times >= newest[self._keys.rows[:, 0]] - self.within_us)
        if kept.all():
            self._swept = len(self)
            return
        left = times[kept]
        self._keys.keep(kept)
        for i, codes in enumerate(self._codes):
            codes.keep(self._keys.rows[:, 1 + i])
        self.times = np.full(max(1024, 2 * len(left)), NO_TIME, dtype=np.int64)
        self.times[: len(left)] = left
        self._swept = len(left)
