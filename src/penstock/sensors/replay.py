"""Replay of recordings: CSV or Parquet files at their own pace, N times as fast, or as fast as possible.

The address is the file below `sensor_files`, optionally with the rows to choose: `loops.csv?sensor=6005`. The sensor ends with the
file, or starts over with `loop`; then times go on from where the file ended. A sensor that is opened again
continues after what the log holds, in tables that keep the recorded times; in others it starts over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.clock import Clock
from penstock.errors import error, suggest
from penstock.sensors.address_rules import AddressRules
from penstock.sensors.base import END, Connector, Option, Reading, ReadResult, Sensor, no_value
from penstock.sensors.options import flag, one_of
from penstock.sensors.recording_files import UNITS_US, Recording, parse_address, read_times
from penstock.types import Field

# A recording of one moment must not fill the memory; only beyond this can a crash part rows of one time.
_ONE_TIME_MOST_ROWS = 65_536
_TIME_NAMES = ("ts", "time", "timestamp", "datetime", "date")


def _speed(text: str) -> float | None:
    """How many times faster than recorded; None for as fast as possible."""
    if text.lower() == "max":
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*x?", text.strip().lower())
    if match is None or float(match.group(1)) <= 0:
        raise ValueError(f'"{text}" is not a speed; write 1x, 10x or max')
    return float(match.group(1))


def _mapping(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not sign or not field.strip() or not column.strip() for field, sign, column in pairs):
        raise ValueError(f'"{text}" is not a list like field=column, field=column')
    return {field.strip(): column.strip() for field, _, column in pairs}


OPTIONS = (
    Option("speed", "1x", "Pace: 1x as recorded, 10x ten times as fast, max as fast as possible.", _speed),
    Option("time", "", "Column with the times; empty means ts, time, timestamp, datetime or date; none means none."),
    Option("unit", "s", "Unit of times that are written as numbers: s, ms or us.", one_of(*UNITS_US)),
    Option(
        "times",
        "file",
        "Time of a reading: file for the recorded one, now for the moment of its replay.",
        one_of("file", "now"),
    ),
    Option("columns", "", "Which column feeds which field: 'field=column, field=column'; others by name.", _mapping),
    Option("loop", "false", "Whether to start over at the end of the file.", flag),
)


Times = NDArray[np.int64]


class Replay(Sensor):
    """One recording, as if its sensor were there."""

    OPTIONS = OPTIONS

    def __init__(self, address: str, fields: tuple[Field, ...], options: Mapping[str, Any], clock: Clock) -> None:
        super().__init__(address, fields, options, clock)
        self._recording: Recording | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._columns: list[str] = []
        self._time_column: str | None = None
        self._batch: pa.RecordBatch | None = None
        self._times: Times | None = None
        self._ahead: tuple[pa.RecordBatch, Times | None] | None = None  # read already, not replayed yet
        self._cursor = 0
        self._stored_us: int | None = None
        self._first_us: int | None = None  # time of the file's first row
        self._origin: tuple[int, int] | None = None  # (its time, time on the clock) of the first row that is replayed
        self._shift_us = 0  # added to the file's times; grows with every loop
        self._last_us = 0
        self._step_us = 0  # between the last two rows with different times
        self._rows_in_loop = 0
        self._bad = 0

    @property
    def resumes(self) -> bool:
        return bool(self.options["times"] == "file")

    def resume(self, newest_us: int) -> None:
        self._stored_us = newest_us

    def init(self) -> None:
        self._recording = Recording(parse_address(self.address), self.rules.files, self.rules.line_max_bytes)
        self._time_column = self._choose_time(self._recording)
        self._columns = self._choose_columns(self._recording)
        self._start()

    def read(self) -> Reading:
        if self._batch is None or self._cursor == self._batch.num_rows:
            self._batch = self._next_batch()
            self._cursor = 0
            if self._batch is None:
                return Reading(ReadResult.NO_VALUE, **self._complaint()) if self._bad else END
        last, next_due_us = self._due()
        if last == self._cursor and not self._bad:
            return no_value(next_due_us) if next_due_us is not None else Reading(ReadResult.NO_VALUE)
        begin, self._cursor = self._cursor, last
        times = self._times[begin:last] if self._times is not None and self.options["times"] == "file" else None
        return Reading(
            ReadResult.NEW_VALUE,
            batch=self._batch.slice(begin, last - begin),
            times_us=times,
            next_due_us=next_due_us,
            **self._complaint(),
        )

    def close(self) -> None:
        if self._recording is not None:
            self._recording.close()

    def _start(self) -> None:
        assert self._recording is not None
        needed = [*self._columns, *([self._time_column] if self._time_column is not None else [])]
        self._batches = self._recording.batches(list(dict.fromkeys(needed)))
        self._rows_in_loop = 0

    def _next_batch(self) -> pa.RecordBatch | None:
        """The next rows, up to the last of their time; None at the end.

        What one read gives is logged whole or not at all. As no other read has rows of its newest time, a replay that
        resumes after the newest logged time misses nothing and repeats nothing.
        """
        found, self._ahead = self._ahead or self._next_rows(), None
        if found is None:
            return None
        batch, times = found
        while times is not None and len(times) < _ONE_TIME_MOST_ROWS:
            self._ahead = self._next_rows()
            if self._ahead is None:
                break
            more, later = self._ahead
            assert later is not None
            newer = np.flatnonzero(later > times.max())
            count = int(newer[0]) if len(newer) else len(later)
            if count:
                batch = pa.Table.from_batches([batch, more.slice(0, count)]).combine_chunks().to_batches()[0]
                times = np.concatenate([times, later[:count]])
            self._ahead = (more.slice(count), later[count:]) if count < len(later) else None
            if self._ahead is not None:
                break
        self._times = times
        return batch

    def _next_rows(self) -> tuple[pa.RecordBatch, Times | None] | None:
        """The next rows with a time that can be read, with their times; None at the end."""
        assert self._recording is not None
        while True:
            skipped = self._recording.skipped
            batch = next(self._batches, None)
            self._bad += self._recording.skipped - skipped
            if batch is None:
                if not self.options["loop"] or not self._rows_in_loop:
                    return None
                self._shift_us = self._last_us + max(self._step_us, 1) - (self._first_us or 0)
                self._start()
                continue
            batch, times = self._take_times(batch)
            if batch.num_rows:
                names = list(map(str, range(len(self._columns))))
                return pa.RecordBatch.from_arrays([batch.column(c) for c in self._columns], names), times

    def _take_times(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Times | None]:
        if self._time_column is None:
            self._rows_in_loop += batch.num_rows
            return batch, None
        times, good = read_times(batch.column(self._time_column), self.options["unit"])
        if not good.all():
            self._bad += int((~good).sum())
            batch, times = batch.filter(pa.array(good)), times[good]
        self._rows_in_loop += len(times)
        if len(times):
            if self._first_us is None:
                self._first_us = int(times[0])
            times = times + self._shift_us
            self._note_end(times)
        if self._stored_us is not None:
            new = times > self._stored_us
            batch, times = batch.filter(pa.array(new)), times[new]
        if self._origin is None and len(times):
            self._origin = (int(times[0]), self.clock.now_us())
        return batch, times

    def _note_end(self, times: Times) -> None:
        """Keep in mind how the recording ends so far, for the times of the next loop."""
        steps = np.diff(times)
        if (steps > 0).any():
            self._step_us = int(steps[steps > 0][-1])
        self._last_us = max(self._last_us, int(times.max()))

    def _due(self) -> tuple[int, int | None]:
        """Up to which row of the batch to go now, and when the row after it is due."""
        assert self._batch is not None
        speed: float | None = self.options["speed"]
        if speed is None or self._times is None or self._origin is None:
            return self._batch.num_rows, None
        recorded_us, opened_us = self._origin
        played_us = recorded_us + int((self.clock.now_us() - opened_us) * speed)
        # A time that steps back does not hold up the rows behind it.
        reached = np.maximum.accumulate(self._times[self._cursor :])
        last = self._cursor + int(np.searchsorted(reached, played_us, side="right"))
        if last == self._batch.num_rows:
            return last, None
        return last, opened_us + int((int(reached[last - self._cursor]) - recorded_us) / speed) + 1

    def _complaint(self) -> dict[str, Any]:
        bad, self._bad = self._bad, 0
        if not bad:
            return {}
        assert self._recording is not None
        long_ones = f", or with more than {self._recording.line_max_bytes} bytes (line_max_bytes)"
        problem = f"{bad} lines without a time or with too many or too few values"
        return {"bad": bad, "problem": problem + (long_ones if self._recording.too_long else "")}

    def _choose_time(self, recording: Recording) -> str | None:
        wanted: str = self.options["time"]
        if wanted.lower() == "none":
            return None
        if wanted:
            recording.require(wanted)
            return wanted
        found = next((c for name in _TIME_NAMES for c in recording.columns if c.lower() == name), None)
        if found is None and self.options["speed"] is not None:
            raise error(
                "invalid_option",
                option="time",
                detail=f'"{recording.name}" has no column that is called like a time',
                hint="name it, or replay with speed 'max'",
            )
        return found

    def _choose_columns(self, recording: Recording) -> list[str]:
        """A column per field: by the option, by name, or the only one that is left for an only field."""
        given: dict[str, str] = self.options["columns"]
        lower = {c.lower(): c for c in reversed(recording.columns)}
        rest = [c for c in recording.columns if c != self._time_column and c not in recording.address.chosen]
        chosen: list[str] = []
        for field in self.fields:
            column = given.get(field.name) or lower.get(field.name.lower())
            if column is None and len(self.fields) == 1 and len(rest) == 1:
                column = rest[0]
            if column is None:
                hint = f"its columns are {', '.join(recording.columns)}; say OPTIONS (columns '{field.name}=...')"
                raise error("column_not_found", table=recording.name, column=field.name, hint=hint)
            recording.require(column)
            chosen.append(column)
        return chosen


def _check(fields: tuple[Field, ...], options: Mapping[str, Any]) -> None:
    names = [f.name for f in fields]
    for name in options["columns"]:
        if name not in names:
            raise error(
                "invalid_option", option="columns", detail=f'there is no field "{name}"', hint=suggest(name, names)
            )


def _check_address(address: str, rules: AddressRules) -> None:
    rules.files.check(parse_address(address).path)


CONNECTOR = Connector(
    name="replay",
    sentence="Recorded readings from a CSV or Parquet file below `sensor_files`, at their own pace or faster.",
    mode="pull",
    options=OPTIONS,
    factory=Replay,
    check=_check,
    check_address=_check_address,
)
