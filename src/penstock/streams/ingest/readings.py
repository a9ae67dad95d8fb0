"""A push as it was sent, made into columns: names sorted out, values converted, bad readings set aside.

Names: the table's key columns, the stream's fields (bare, or as `stream.field`), and `ts`. Per reading, the first
of these decides: unknown_field, missing_field, invalid_value, not_null_violation. A field must be there, if only as null: a
missing one stored as NULL would hide a sender's mistake. `ts` may be missing or null (see `rules`).
A table gives times itself under transaction time, so a `ts` sent to it is refused rather than thrown away.

A table `WITH (discover = true)` takes the key of a reading that it does not know as a new sensor's, and makes the sensor's row from
it (`Discovery`). Such a table also takes static columns, and the stream column's name for the address. They are the new sensor's;
those of a sensor that is known are left as they are, because a user may have corrected them. The rows are journalled before the
readings are judged, so the readings find them like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, StreamColumn, Table
from penstock.catalog.rows import Int64s, StaticRows
from penstock.errors import PenstockError, error, suggest
from penstock.streams.ingest.rules import NO_TIME
from penstock.streams.ingest.values import Report, column_from_arrow, column_from_values, times_of
from penstock.types import TEXT, TIMESTAMP, Field, Type


@dataclass(frozen=True, slots=True)
class ReadingRefusal:
    """One reading that was not stored, and why."""

    index: int
    condition: str
    message: str


@dataclass(frozen=True, slots=True)
class IngestReceipt:
    """What became of a push: how many readings are on disk, which were refused, and the log's head after."""

    accepted: int
    refused: tuple[ReadingRefusal, ...] = ()
    position: int = 0


# push(table, readings): stored once the future has its result
Push = Callable[[str, Sequence[Mapping[str, Any]]], Future[IngestReceipt]]


@dataclass(slots=True)
class Readings:
    """Columns of one push, all of the same length. Rows named in `bad` are refused; their values mean nothing."""

    count: int
    keys: list[pa.Array]
    times: Int64s | None
    fields: list[pa.Array]
    bad: dict[int, ReadingRefusal] = field(default_factory=dict)
    described: dict[str, pa.Array] = field(default_factory=dict)  # static columns beside the key, and the address


class _Names:
    """What a reading of a table may be called by: name -> (spelling shown, Field) and which of them must be there."""

    def __init__(self, table: Table) -> None:
        stream = require_stream(table)
        self.table = table
        static = {column.name: column for column in table.columns}
        self.keys = [static[name] for name in table.key]
        self.fields = list(stream.fields)
        self.needed: list[tuple[str, Field]] = [(f.name, f) for f in self.keys]
        self.slots: dict[str, int] = {f.name: i for i, f in enumerate(self.keys)}
        for stream_field in self.fields:
            full = f"{stream.name}.{stream_field.name}"
            bare = stream_field.name not in static and stream_field.name != TIME_COLUMN
            slot = len(self.needed)
            self.slots[full] = slot
            if bare:
                self.slots[stream_field.name] = slot
            self.needed.append((stream_field.name if bare else full, stream_field))
        self.time_slot = len(self.needed)
        self.slots[TIME_COLUMN] = self.time_slot
        self.described: dict[int, Field] = {}
        if table.options.discover:
            others = [c for c in table.columns if c.name not in table.key]
            for slot, column in enumerate((*others, Field(stream.name, TEXT)), start=self.time_slot + 1):
                self.slots[column.name] = slot
                self.described[slot] = column

    def unknown(self, name: str) -> PenstockError:
        hint = suggest(name, self.slots)
        if any(column.name == name for column in self.table.columns):
            hint = "it is a static column; change it with UPDATE"
        return error("unknown_field", table=self.table.name, field=name, hint=hint)


def require_stream(table: Table) -> StreamColumn:
    """The stream of a sensor table; an ordinary table takes no readings."""
    if table.stream is None:
        raise error("not_supported", feature=f'pushing readings to "{table.name}"', hint="it has no stream; use INSERT")
    return table.stream


def read_readings(table: Table, data: pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]]) -> Readings:
    """Columns of a push. Raises for what is wrong with an Arrow table as a whole: a column too many or too few."""
    names = _Names(table)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    readings = _from_arrow(names, data) if isinstance(data, pa.Table) else _from_rows(names, data)
    if table.options.time == "transaction" and readings.times is not None:
        for index in np.flatnonzero(readings.times != NO_TIME).tolist():
            readings.bad.setdefault(index, _refusal(index, _time_given(table)))
        readings.times = None
    return readings


def read_resolved(table: Table, count: int, times: Int64s | None, columns: Sequence[pa.Array]) -> Readings:
    """Columns of readings of known sensors, in the order of the stream's fields.

    Fields that were added to the stream since the sensor was asked are NULL. Transaction time ignores `times`:
    they are the sensor's own, and the table stores the time of arrival.
    """
    names = _Names(table)
    bad: dict[int, ReadingRefusal] = {}
    fields = [
        column_from_arrow(wanted.type, columns[i], _reporter(bad, wanted.name))
        if i < len(columns)
        else pa.nulls(count, wanted.type.to_arrow())
        for i, wanted in enumerate(names.fields)
    ]
    _refuse_nulls(names, fields, bad)
    given = times if table.options.time == "valid" else None
    return Readings(count, [], None if given is None else np.ascontiguousarray(given, dtype=np.int64), fields, bad)


def _from_arrow(names: _Names, data: pa.Table) -> Readings:
    found: dict[int, pa.ChunkedArray] = {}
    for name in data.schema.names:
        slot = names.slots.get(name)
        if slot is None:
            raise names.unknown(name)
        if slot in found:
            raise error("invalid_value", field=name, detail="it is given twice")
        found[slot] = data.column(name)
    for slot, (spelled, _) in enumerate(names.needed):
        if slot not in found:
            raise error("missing_field", field=spelled)
    times = found.get(names.time_slot)
    if times is not None and names.table.options.time == "transaction" and data.num_rows and times.null_count == 0:
        raise _time_given(names.table)
    return _converted(names, data.num_rows, found, column_from_arrow, {})


def _from_rows(names: _Names, rows: Sequence[Mapping[str, Any]]) -> Readings:
    bad: dict[int, ReadingRefusal] = {}
    values = _same_names(names, rows)
    if values is None:
        values = _any_names(names, rows, bad)
    return _converted(names, len(rows), values, column_from_values, bad)


def _converted(
    names: _Names,
    count: int,
    found: Mapping[int, Any],
    convert: Callable[[Type, Any, Report], pa.Array],
    bad: dict[int, ReadingRefusal],
) -> Readings:
    """Readings of the columns that were found, by slot. What cannot be converted is noted in `bad`."""

    def column(slot: int, spelled: str, wanted: Type) -> pa.Array:
        return convert(wanted, found[slot], _reporter(bad, spelled))

    columns = [column(slot, spelled, wanted.type) for slot, (spelled, wanted) in enumerate(names.needed)]
    times = times_of(column(names.time_slot, TIME_COLUMN, TIMESTAMP)) if names.time_slot in found else None
    keys = len(names.keys)
    _refuse_nulls(names, columns[keys:], bad)
    described = {c.name: column(slot, c.name, c.type) for slot, c in names.described.items() if slot in found}
    return Readings(count, columns[:keys], times, columns[keys:], bad, described)


def _same_names(names: _Names, rows: Sequence[Mapping[str, Any]]) -> dict[int, list[Any]] | None:
    """The values by slot where every reading has the names of the first and these are right; None otherwise."""
    if not rows or not isinstance(rows[0], dict):
        return None
    spelled = list(rows[0])
    slots = [names.slots.get(name) for name in spelled]
    expected = set(range(names.time_slot))
    if len(set(slots)) != len(slots) or set(slots) - {names.time_slot, *names.described} != expected:
        return None
    try:
        if set(map(len, rows)) != {len(spelled)}:
            return None
        return {
            slot: [row[name] for row in rows] for slot, name in zip(slots, spelled, strict=True) if slot is not None
        }
    except (KeyError, TypeError):
        return None


def _any_names(names: _Names, rows: Sequence[Any], bad: dict[int, ReadingRefusal]) -> dict[int, list[Any]]:
    count = names.time_slot + 1 + len(names.described)
    values: dict[int, list[Any]] = {slot: [None] * len(rows) for slot in range(count)}
    for index, row in enumerate(rows):
        problem = _place(names, index, row, values)
        if problem is not None:
            bad[index] = _refusal(index, problem)
            for column in values.values():
                column[index] = None
    return values


def _place(names: _Names, index: int, row: Any, values: dict[int, list[Any]]) -> PenstockError | None:
    if not isinstance(row, Mapping):
        return error("invalid_body", detail=f"reading {index} is not an object")
    seen = set()
    for name, value in row.items():
        slot = names.slots.get(name)
        if slot is None:
            return names.unknown(str(name))
        if slot in seen:
            return error("invalid_value", field=name, detail="it is given twice")
        seen.add(slot)
        values[slot][index] = value
    for slot, (spelled, _) in enumerate(names.needed):
        if slot not in seen:
            return error("missing_field", field=spelled)
    return None


def _reporter(bad: dict[int, ReadingRefusal], name: str) -> Report:
    def report(index: int, sentence: str) -> None:
        bad.setdefault(index, _refusal(index, error("invalid_value", field=name, detail=sentence)))

    return report


def _refuse_nulls(names: _Names, fields: Sequence[pa.Array], bad: dict[int, ReadingRefusal]) -> None:
    """Set readings aside that have no value where the stream's definition says NOT NULL."""
    for wanted, column in zip(names.fields, fields, strict=True):
        if wanted.required and column.null_count:
            problem = error("not_null_violation", column=wanted.name, table=names.table.name)
            for index in np.flatnonzero(np.asarray(column.is_null())).tolist():
                bad.setdefault(index, _refusal(index, problem))


def _refusal(index: int, problem: PenstockError) -> ReadingRefusal:
    message = problem.message if problem.hint is None else f"{problem.message}; {problem.hint}"
    return ReadingRefusal(index, problem.condition, message)


def _time_given(table: Table) -> PenstockError:
    return error(
        "invalid_value",
        field=TIME_COLUMN,
        detail=f'"{table.name}" gives its readings their time',
        hint="leave ts out, or create the table WITH (time = 'valid') to keep the sensors' own times",
    )


InsertRows = Callable[[str, Sequence[Sequence[Any]]], int]


class Discovery:
    """Adds sensors through `insert` until a table has `most` of them: a mistake in a sender's key must not fill the disk."""

    def __init__(self, insert: InsertRows, most: int) -> None:
        self._insert = insert
        self._most = most

    def add_unknown(self, table: Table, readings: Readings, rows: Callable[[], StaticRows]) -> int:
        """How many sensors were added. Readings of a sensor that cannot be added are noted as bad, with the reason."""
        if not (table.options.discover and table.key and readings.count):
            return 0
        while True:
            known = rows()
            unknown = [i for i in np.flatnonzero(known.find(readings.keys) < 0).tolist() if i not in readings.bad]
            if not unknown:
                return 0
            new = self._new_rows(table, readings, unknown, self._most - len(known.live_sids()))
            try:
                return self._insert(table.name, new) if new else 0
            except PenstockError as problem:
                if problem.condition != "unique_violation":
                    raise
                # Another sender brought one of them first: look again.

    def _new_rows(self, table: Table, readings: Readings, unknown: list[int], room: int) -> list[list[Any]]:
        found: dict[tuple[Any, ...], list[Any]] = {}
        problems: dict[tuple[Any, ...], PenstockError] = {}
        for index in unknown:
            key = tuple([column[index].as_py() for column in readings.keys])
            if None in key or key in found:
                continue
            if key not in problems:
                row, problem = _row(table, readings, index, key)
                if problem is None and len(found) >= room:
                    detail = f'table "{table.name}" has {self._most} sensors; no more are discovered'
                    problem = error("limit_reached", detail=f"{detail} (discover_max_sensors)")
                if problem is None:
                    found[key] = row
                    continue
                problems[key] = problem
            readings.bad[index] = ReadingRefusal(index, problems[key].condition, problems[key].message)
        return list(found.values())


def _row(table: Table, readings: Readings, index: int, key: tuple[Any, ...]) -> tuple[list[Any], PenstockError | None]:
    """Static values in the order of the columns, then the address."""
    assert table.stream is not None
    values = dict(zip(table.key, key, strict=True))
    values.update({name: column[index].as_py() for name, column in readings.described.items()})
    for column in table.columns:
        if column.required and values.get(column.name) is None:
            return [], error("not_null_violation", column=column.name, table=table.name)
    return [*(values.get(column.name) for column in table.columns), values.get(table.stream.name)], None
