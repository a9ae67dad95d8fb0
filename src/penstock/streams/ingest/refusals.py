"""Refusals in words: from the codes of `rules` to what a sender reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, Table
from penstock.clock import format_timestamp
from penstock.errors import CONDITIONS
from penstock.streams.ingest.deduplication import key_fields
from penstock.streams.ingest.readings import ReadingRefusal, Readings
from penstock.streams.ingest.rules import ACCEPTED, AHEAD, BEFORE, DUPLICATE
from penstock.streams.ingest.sensor_order import Verdict
from penstock.types import format_duration


def refuse(table: Table, readings: Readings, vids: Any, verdict: Verdict) -> tuple[ReadingRefusal, ...]:
    """A refusal for every reading that is not accepted, in the order sent."""
    options = table.options
    found: list[ReadingRefusal] = []
    for index in np.flatnonzero(verdict.code != ACCEPTED).tolist():
        if index in readings.bad:
            found.append(readings.bad[index])
            continue
        code = int(verdict.code[index])
        if vids[index] < 0:
            found.append(_say(index, "sensor_not_found", table=table.name, key=_sensor(table, readings, index)))
            continue
        ts = format_timestamp(int(verdict.times[index]))
        if code == AHEAD:
            found.append(_say(index, "too_far_ahead", ts=ts, max_ahead=format_duration(options.max_ahead_us)))
        elif code == BEFORE:
            found.append(_say(index, "before_retention", ts=ts, retention=format_duration(options.retention_us or 0)))
        elif code == DUPLICATE:
            assert options.deduplicate is not None
            within = format_duration(options.deduplicate.within_us)
            found.append(_say(index, "duplicate_reading", key=_key(table, readings, verdict, index), within=within))
        else:
            newest = format_timestamp(int(verdict.old_newest[index]))
            found.append(_say(index, "out_of_order", ts=ts, newest=newest))
    return tuple(found)


def _say(index: int, condition: str, **parameters: Any) -> ReadingRefusal:
    return ReadingRefusal(index, condition, CONDITIONS[condition].template.format(**parameters))


def _sensor(table: Table, readings: Readings, index: int) -> str:
    if not readings.keys:
        return "that number; it was deleted"
    return ", ".join(f"{n} = {_show(k[index])}" for n, k in zip(table.key, readings.keys, strict=True))


def _key(table: Table, readings: Readings, verdict: Verdict, index: int) -> str:
    assert table.stream is not None
    by_name = {f.name: column for f, column in zip(table.stream.fields, readings.fields, strict=True)}
    parts = []
    for name in key_fields(table):
        if name == TIME_COLUMN:
            parts.append(f"{name} = {format_timestamp(int(verdict.times[index]))}")
        else:
            parts.append(f"{name} = {_show(by_name[name][index])}")
    return ", ".join(parts) or "the same sensor"


def _show(value: pa.Scalar) -> str:
    shown = value.as_py()
    return "NULL" if shown is None else f"'{shown}'" if isinstance(shown, str) else str(shown)
