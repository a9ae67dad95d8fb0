"""Readings in and changes out, over connections that may break.

Rows with the same fields travel as Arrow; rows that Arrow cannot hold in one column type travel as JSON, so that
the server can refuse the odd one by its index instead of all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib import parse

import orjson
import pyarrow as pa

from penstock.back_off import BackOff
from penstock.client.transport import ARROW, JSON, Transport, read_error, refuse_not_finite, to_json
from penstock.errors import PenstockError, error

if TYPE_CHECKING:
    import pandas as pd


Readings: TypeAlias = "Sequence[Mapping[str, Any]] | pd.DataFrame | pa.Table | pa.RecordBatch"

BATCH_ROWS = 50_000
# Well below the server's body_max_bytes.
BATCH_BYTES = 16 << 20
BACK_OFF = BackOff(least_s=0.1, most_s=5.0)
RETRY_CONDITIONS = frozenset({"connection_failed", "not_ready", "too_busy", "rate_limited"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reading that was not stored, by its place in what was pushed, and why."""

    index: int
    condition: str
    message: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a push: how many readings are on disk, which were refused, the log's head after."""

    accepted: int
    refused: tuple[Refusal, ...] = ()
    position: int = 0


@dataclass(frozen=True, slots=True)
class PushBatch:
    """One body to send; `first` is the index of its first reading."""

    first: int
    media_type: str
    body: bytes


def send(transport: Transport, table: str, batch: PushBatch, key: str, retry_for_s: float) -> dict[str, Any]:
    """Send a batch, for up to `retry_for_s`; what the server says became of it. The key lets the server store it once."""
    path = f"/v1/tables/{quote(table)}/readings"
    headers = {"Content-Type": batch.media_type, "Idempotency-Key": key, "Accept": JSON}
    deadline = time.monotonic() + retry_for_s
    failures = 0
    while True:
        try:
            response = transport.call("POST", path, content=batch.body, headers=headers)
            reply: dict[str, Any] = orjson.loads(response.content)
            return reply
        except PenstockError as problem:
            failures += 1
            pause_s = BACK_OFF.spread_s(failures)  # many senders do not come back in one moment
            if problem.condition not in RETRY_CONDITIONS or time.monotonic() + pause_s > deadline:
                raise
        time.sleep(pause_s)


def quote(name: str) -> str:
    """A name as one segment of a path."""
    return parse.quote(name, safe="")


def batches(readings: Readings, batch_rows: int = BATCH_ROWS) -> Iterator[PushBatch]:
    """Bodies in order. The same readings always fall into the same batches, which repeats by key rely on."""
    if isinstance(readings, pa.RecordBatch):
        readings = pa.Table.from_batches([readings])
    if isinstance(readings, pa.Table):
        yield from _arrow_batches(readings, 0, batch_rows)
    elif isinstance(readings, Sequence):
        for start in range(0, len(readings), batch_rows):
            yield from _row_batches(readings[start : start + batch_rows], start, batch_rows)
    elif hasattr(readings, "columns"):
        yield from _arrow_batches(pa.Table.from_pandas(readings, preserve_index=False), 0, batch_rows)
    else:
        hint = "push a list of dictionaries, a DataFrame or an Arrow table"
        raise error("invalid_parameter", detail=f"cannot push a {type(readings).__name__}", hint=hint)


def _arrow_batches(table: pa.Table, first: int, batch_rows: int) -> Iterator[PushBatch]:
    if table.num_rows:
        batch_rows = min(batch_rows, max(1, BATCH_BYTES * table.num_rows // max(table.nbytes, 1)))
    for start in range(0, table.num_rows, batch_rows):
        part = table.slice(start, batch_rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
        yield PushBatch(first + start, ARROW, bytes(memoryview(sink.getvalue())))


def _row_batches(rows: Sequence[Mapping[str, Any]], first: int, batch_rows: int) -> Iterator[PushBatch]:
    names = list(rows[0])
    if names and all(row.keys() == rows[0].keys() for row in rows):
        try:
            columns = [pa.array([row[name] for row in rows]) for name in names]
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            pass
        else:
            yield from _arrow_batches(pa.Table.from_arrays(columns, names=names), first, batch_rows)
            return
    refuse_not_finite(value for row in rows for value in row.values())
    body = to_json([dict(row) for row in rows])
    if len(body) > BATCH_BYTES and len(rows) > 1:
        middle = len(rows) // 2
        yield from _row_batches(rows[:middle], first, batch_rows)
        yield from _row_batches(rows[middle:], first + middle, batch_rows)
        return
    yield PushBatch(first, JSON, body)


# The server pings every 15 s; three silent pings mean that it is gone.
SILENCE_S = 45.0


@dataclass(frozen=True, slots=True)
class Change:
    """Rows of one committed cycle. With changes, each row has `op`: + for one that entered, - for one that left.

    `behind` says how far the query stands behind the cycles, if it does: `cycle`, `rows` and `seconds`.
    """

    cycle: int
    now: str | None
    rows: list[dict[str, Any]]
    columns: tuple[str, ...] = ()
    behind: dict[str, Any] | None = None


def subscribe(
    transport: Transport, name: str, wanted: Sequence[str], from_cycle: int | None, retry_for_s: float | None
) -> Iterator[Change]:
    """What is `wanted` (changes or final rows; nothing: rows as they enter) in order of cycles, each cycle once, until the query is dropped or the caller stops.

    A lost connection is taken up again after the last cycle seen, for `retry_for_s` (None: for ever). What never
    connected at all, and a cycle that is no longer kept, raise.
    """
    last: int | None = None
    lost_at: float | None = None
    connected = False
    failures = 0
    while True:
        params: dict[str, Any] = dict.fromkeys(wanted, "true")
        if from_cycle is not None:
            params["from_cycle"] = from_cycle
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(last)} if last is not None else {})
        try:
            with transport.stream(f"/v1/queries/{quote(name)}/events", headers, params, SILENCE_S) as lines:
                connected, lost_at, failures = True, None, 0
                for cycle, change in _changes(lines):
                    # Delivery is at least once; the cycle's number tells a repeat.
                    if last is not None and cycle <= last:
                        continue
                    last = cycle
                    if change is not None:
                        yield change
        except PenstockError as problem:
            if not connected or problem.condition not in RETRY_CONDITIONS:
                raise
            lost_at = lost_at or time.monotonic()
            if retry_for_s is not None and time.monotonic() - lost_at > retry_for_s:
                raise
        failures += 1
        time.sleep(BACK_OFF.pause_s(failures))


def _changes(lines: Iterator[str]) -> Iterator[tuple[int, Change | None]]:
    """Cycles that are through, with their rows; a ping tells of quiet ones."""
    for event, data, id in _frames(lines):
        if event == "rows":
            body = orjson.loads(data)
            names = tuple(column["name"] for column in body.get("columns", ()))
            yield body["cycle"], Change(body["cycle"], body["now"], body["rows"], names, body.get("behind"))
        elif event == "ping" and id:
            yield int(id), None
        elif event == "error":
            raise read_error(data.encode(), 500)


def _frames(lines: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    """Event, data and id of each complete server-sent event; one that the connection cut short is dropped."""
    fields: dict[str, list[str]] = {}
    for line in lines:
        if line:
            field, _, value = line.partition(":")
            fields.setdefault(field, []).append(value.removeprefix(" "))
            continue
        if "data" in fields:
            event = fields.get("event", ["message"])[-1]
            yield event, "\n".join(fields["data"]), fields.get("id", [""])[-1]
        fields = {}
