"""A log and an ingest over one table, for tests that push."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.catalog.model import Table
from penstock.settings import Settings
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.ingest.readings import IngestReceipt
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices
from penstock.streams.log.stream_log import StreamLog
from tests.streams.doubles import StateDouble
from tests.support.manual_clock import ManualClock

SECOND = 1_000_000
NOW = 1_763_190_000_000_000


class Bench:
    """A log and an ingest over one table, restartable."""

    def __init__(self, folder: Path, table: Table) -> None:
        self.folder, self.table = folder, table
        self.clock = ManualClock(NOW)
        self.state = StateDouble(table)
        self.crash_point: Callable[[str], None] = lambda step: None
        self.open()

    def open(self) -> None:
        self.log = StreamLog(self.folder, Settings(), self.clock, lambda step: self.crash_point(step))
        self.ingest = Ingest(self.log, lambda: self.state, self.clock, Settings())

    def restart(self) -> None:
        self.log.close()
        self.open()

    def push(self, data: Any, key: str | None = None) -> IngestReceipt:
        return self.ingest.push("probes", data, key).result(60)

    def stored(self, *columns: str) -> list[tuple[Any, ...]]:
        segments = list_segments(self.log.folder, self.table.id)
        rows: list[tuple[Any, ...]] = []
        for piece in slices(segments, 0, 2**60):
            table = read_slice(piece, list(columns))
            if "ts" in columns:
                at = columns.index("ts")
                table = table.set_column(at, "ts", table.column("ts").cast(pa.int64()))
            rows.extend(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return rows


Make = Callable[..., Bench]


def refusals(receipt: IngestReceipt) -> list[tuple[int, str]]:
    return [(refusal.index, refusal.condition) for refusal in receipt.refused]
