"""Subscribing: changes as they are committed, over connections that may break."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from penstock.client.push import BACK_OFF, RETRY_CONDITIONS, quote
from penstock.client.transport import Transport, read_error
from penstock.errors import PenstockError

# The server pings every 15 s; three silent pings mean that it is gone.
SILENCE_S = 45.0


@dataclass(frozen=True, slots=True)
class Change:
    """Rows of one committed cycle. With changes, each row has `op`: + for one that entered, - for one that left."""

    cycle: int
    now: str | None
    rows: list[dict[str, Any]]
    columns: tuple[str, ...] = ()


def subscribe(
    transport: Transport,
    name: str,
    *,
    changes: bool = False,
    from_cycle: int | None = None,
    retry_for_s: float | None = None,
) -> Iterator[Change]:
    """Changes in order of cycles, each cycle once, until the query is dropped or the caller stops.

    A lost connection is taken up again after the last cycle seen, for `retry_for_s` (None: for ever). What never
    connected at all, and a cycle that is no longer kept, raise.
    """
    last: int | None = None
    lost_at: float | None = None
    connected = False
    failures = 0
    while True:
        params: dict[str, Any] = {"changes": "true"} if changes else {}
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
    for frame in frames(lines):
        if frame.event == "rows":
            body = orjson.loads(frame.data)
            names = tuple(column["name"] for column in body.get("columns", ()))
            yield body["cycle"], Change(body["cycle"], body["now"], body["rows"], names)
        elif frame.event == "ping" and frame.id:
            yield int(frame.id), None
        elif frame.event == "error":
            raise read_error(frame.data.encode(), 500)


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event."""

    event: str
    data: str
    id: str


def frames(lines: Iterator[str]) -> Iterator[Frame]:
    """Each complete event; one that the connection cut short is dropped."""
    fields: dict[str, list[str]] = {}
    for line in lines:
        if line:
            field, _, value = line.partition(":")
            fields.setdefault(field, []).append(value.removeprefix(" "))
            continue
        if "data" in fields:
            event = fields.get("event", ["message"])[-1]
            yield Frame(event, "\n".join(fields["data"]), fields.get("id", [""])[-1])
        fields = {}
