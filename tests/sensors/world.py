"""A small world for the stream manager: a catalog, an ingest that remembers, and sensors that misbehave."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.back_off import BackOff
from penstock.catalog.model import StreamColumn, Table, TableOptions
from penstock.clock import Clock, WallClock
from penstock.sensors.base import END, NO_VALUE, Deliver, PushSensor, Reading, Sensor, new_value
from penstock.streams.ingest.readings import IngestReceipt
from penstock.streams.sources.manager import StreamManager
from penstock.streams.sources.polling import PollLimits
from penstock.streams.sources.sensor_lifecycle import ManagerLimits
from penstock.types import DOUBLE, INT, TEXT, Field

FIELDS = (Field("value", DOUBLE),)
# A busy machine may leave any thread standing for a while: only where sensors hang on purpose, little time means so.
FAST = ManagerLimits(poll=PollLimits(hang_s=600, slow_s=0.02, held_s=0.05), back_off=BackOff(0.02, 60.0))
IMPATIENT = replace(FAST, poll=replace(FAST.poll, hang_s=0.15))
# The limits only end tests that would fail anyway.
PATIENCE_S = 60.0
GAS = (Field("gas_id", INT), Field("gas_name", TEXT), Field("ppm", DOUBLE))


def table(
    table_id: int = 1,
    connector: str | None = "python",
    fields: tuple[Field, ...] = FIELDS,
    options: TableOptions | None = None,
    **sensor_options: str,
) -> Table:
    named = {"class" if name == "class_" else name: text for name, text in sensor_options.items()}
    stream = StreamColumn("reading", fields, "kind", connector, named)
    return Table(table_id, f"t{table_id}", (Field("id", INT),), ("id",), stream, options or TableOptions(time="valid"))


def sensor_table(table_id: int, kind: type, **sensor_options: str) -> Table:
    return table(table_id, class_=f"{kind.__module__}:{kind.__name__}", **sensor_options)


def addresses(count: int) -> dict[int, str | None]:
    return {sid: f"s{sid}" for sid in range(count)}


class Rows:
    def __init__(self, addresses: dict[int, str | None]) -> None:
        self.addresses = addresses
        self.count = hash(tuple(addresses.items()))

    def live_sids(self) -> list[int]:
        return sorted(self.addresses)

    def current(self) -> pa.Table:
        return pa.table(
            {
                "id": pa.array(list(self.addresses), pa.int32()),
                "_sid": pa.array(list(self.addresses), pa.int32()),
                "_address": pa.array(list(self.addresses.values()), pa.string()),
            }
        )


class World:
    """Catalog, journal and ingest of one test; `with World(...) as world` closes the manager at the end."""

    def __init__(
        self,
        *tables: tuple[Table, Mapping[int, str | None]],
        clock: Clock | None = None,
        limits: ManagerLimits = FAST,
        newest_us: tuple[int, ...] = (),
        left_open: tuple[int, ...] = (),
        ended_before: tuple[int, ...] = (),
    ) -> None:
        self.tables_by_id = {t.id: t for t, _ in tables}
        self.addresses = {t.id: dict(addresses) for t, addresses in tables}
        self.pushed: list[tuple[int, int, int | None, tuple[Any, ...]]] = []
        self.pushes = 0
        self.observed: list[tuple[int, list[int], list[int]]] = []
        self.events: list[tuple[str, Any]] = []
        self.refuse: Callable[[], BaseException | None] = lambda: None
        self.left_open = left_open
        self.ended_sids = set(ended_before)
        self.newest_us = newest_us
        self.manager = StreamManager(lambda: self, self, self.observe, clock or WallClock(), limits=limits)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.manager.close(PATIENCE_S)

    def rows(self, table_id: int) -> Rows:
        return Rows(self.addresses[table_id])

    def push_resolved(
        self, table: Table, sids: np.ndarray, ts_us: np.ndarray | None, columns: Sequence[pa.Array]
    ) -> Future[IngestReceipt]:
        future: Future[IngestReceipt] = Future()
        cause = self.refuse()
        if cause is not None:
            future.set_exception(cause)
            return future
        self.pushes += 1
        times = [None] * len(sids) if ts_us is None else ts_us.tolist()
        rows = list(zip(*(c.to_pylist() for c in columns), strict=True))
        self.pushed += zip([table.id] * len(sids), sids.tolist(), times, rows, strict=True)
        self.events.append(("push", len(sids)))
        future.set_result(IngestReceipt(len(sids)))
        return future

    def sensors(self, table: str) -> dict[str, np.ndarray]:
        return {"newest": np.array(self.newest_us, dtype=np.int64)}

    def observe(self, table_id: int, opened: list[int], closed: list[int], ended: list[int]) -> None:
        assert set(ended) <= set(closed)
        self.ended_sids = (self.ended_sids - set(opened)) | set(ended)
        self.events.append(("observe", (table_id, sorted(opened), sorted(closed))))
        self.observed.append((table_id, opened, closed))  # last: tests wait for it, and then look at the others

    def observations(self, table_id: int) -> dict[int, list[tuple[int, int | None]]]:
        return {sid: [(1, None)] for sid in self.left_open} if table_id == 1 else {}

    def ended(self, table_id: int) -> set[int]:
        return self.ended_sids if table_id == 1 else set()

    def opened(self, table_id: int = 1) -> list[int]:
        return sorted(sid for t, sids, _ in self.observed if t == table_id for sid in sids)

    def closed(self, table_id: int = 1) -> list[int]:
        return sorted(sid for t, _, sids in self.observed if t == table_id for sid in sids)

    def of(self, sid: int, table_id: int = 1) -> list[tuple[Any, ...]]:
        return [row for t, s, _, row in list(self.pushed) if (t, s) == (table_id, sid)]

    def state(self, sid: int, table_id: int = 1) -> Any:
        return next(s for s in self.manager.states(table_id) if s.sid == sid)


def wait_until(holds: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, "it never came true"
        time.sleep(0.002)


class Counting(Sensor):
    """Counts up by itself, a little faster than anybody asks; remembers how often its class was opened."""

    openings: list[str] = []
    closings: list[str] = []

    def init(self) -> None:
        self.openings.append(self.address)
        self.count = 0

    def read(self) -> Reading:
        self.count += 1
        return new_value((float(self.count),), next_due_us=self.clock.now_us() + 10_000)

    def close(self) -> None:
        self.closings.append(self.address)


class Throwing(Sensor):
    def read(self) -> Reading:
        raise RuntimeError("the wire is cut")


class Gate:
    """Holds those who come to it until the test opens it, and counts them."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._lock = threading.Lock()
        self.came = 0

    def pass_through(self) -> None:
        with self._lock:
            self.came += 1
        self._open.wait()

    def set(self) -> None:
        self._open.set()


class Hanging(Sensor):
    """Does not answer until the test lets it go."""

    gate = Gate()

    def read(self) -> Reading:
        self.gate.pass_through()
        return new_value((1.0,), next_due_us=self.clock.now_us() + 10_000)


class Stubborn(Sensor):
    """Cannot even be opened until the test lets it go."""

    gate = Gate()

    def init(self) -> None:
        self.gate.pass_through()

    def read(self) -> Reading:
        return NO_VALUE


class Finite(Sensor):
    def init(self) -> None:
        self.left = 3

    def read(self) -> Reading:
        self.left -= 1
        return new_value((float(self.left),)) if self.left >= 0 else END


class Greedy(Sensor):
    """Always has more; remembers who was asked when."""

    asked: list[str] = []

    def read(self) -> Reading:
        self.asked.append(self.address)
        return new_value((0.0,))


class Wordy(Sensor):
    """Says things that are no numbers, among numbers."""

    def init(self) -> None:
        self.words: list[Any] = ["warm", 1.5, None, True, 2]

    def read(self) -> Reading:
        return new_value((self.words.pop(0),)) if self.words else END


class Calling(PushSensor):
    """Hands over what the test tells it to."""

    lines: dict[str, Deliver] = {}
    closings: list[str] = []

    def init(self, deliver: Deliver) -> None:
        self.lines[self.address] = deliver

    def close(self) -> None:
        self.closings.append(self.address)
