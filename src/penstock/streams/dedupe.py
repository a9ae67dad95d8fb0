"""DEDUPLICATE BY: which readings of a sensor repeat an earlier one's key.

A reading is a repeat when its sensor has an accepted reading with an equal key at most `within` away in `ts`.
Remembered are, per sensor, the keys of the readings from `within` before its newest on; that is exact unless a
reading comes out of order by more than that. NULL equals NULL here, and NaN equals NaN. Under
`out_of_order = 'clamp'` the time as stored counts. `rules` decides; this file gives each key a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, Table
from penstock.streams.rules import NO_TIME

Ints = np.ndarray[Any, np.dtype[np.int64]]

_NAN = object()
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

    def __init__(self, within_us: int) -> None:
        self.within_us = within_us
        self.times: Ints = np.full(1024, NO_TIME, dtype=np.int64)
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._swept = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, sids: Sequence[int], columns: Sequence[Sequence[Any]]) -> Ints:
        """A number per reading; equal ones for equal keys of the same sensor."""
        known = self._numbers
        keys = zip(sids, *columns, strict=True)
        found = np.fromiter((known.setdefault(key, len(known)) for key in keys), dtype=np.int64, count=len(sids))
        if len(known) > len(self.times):
            grown = np.full(max(len(known), 2 * len(self.times)), NO_TIME, dtype=np.int64)
            grown[: len(self.times)] = self.times
            self.times = grown
        return found

    @property
    def needs_sweep(self) -> bool:
        return len(self._numbers) > 2 * self._swept + _SLACK

    def sweep(self, newest: Ints) -> None:
        """Forget what no reading can repeat any more. Numbers change: nobody may hold one."""
        kept: dict[tuple[Any, ...], int] = {}
        times: list[int] = []
        for key, number in self._numbers.items():
            time = int(self.times[number])
            if time != NO_TIME and time >= int(newest[key[0]]) - self.within_us:
                kept[key] = len(kept)
                times.append(time)
        self._numbers = kept
        self.times = np.full(max(1024, 2 * len(kept)), NO_TIME, dtype=np.int64)
        self.times[: len(times)] = times
        self._swept = len(kept)


def key_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column so that equal ones are equal as parts of a key."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(kind):
        return [value if value == value else _NAN for value in values]
    if pa.types.is_nested(kind):
        return [repr(value) for value in values]
    return values
