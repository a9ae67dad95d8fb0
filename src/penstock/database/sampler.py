"""Readings per second by table and by sensor, and how the values of each field are distributed: sampled once a second.

Rates are the counts now against those of about a minute ago. A distribution is a bounded summary of a sample of what was
logged. The sample is read from the log's newest files, apart from ingest, so no sender waits for it. A round reads at most
`TABLES_A_ROUND` tables and `ROWS_A_ROUND` rows of each, wherever they lie among the rows that are new.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.answers.latest_readings import numbers
from penstock.catalog.model import Table
from penstock.errors import PenstockError
from penstock.services import Service
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Slice, list_readable, slices
from penstock.streams.log.stream_log import StreamLog

ROWS_A_ROUND = 1000
TABLES_A_ROUND = 4
_FILES_A_TABLE = 4
KEPT_VALUES = 2048
QUANTILES = {"p05": 0.05, "p50": 0.5, "p95": 0.95, "p99": 0.99}


class Distribution:
    """The distribution of one field: exact counts and moments of the sample, quantiles from 2048 values chosen evenly.

    A quantile is off by about one percent of the rows. NaN and the infinities are counted, not measured.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._kept = np.empty(KEPT_VALUES)
        self.sampled = self.nulls = self.measured = 0
        self.least, self.most = math.inf, -math.inf
        self.mean = self._squares = 0.0

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        self.sampled += len(column)
        self.nulls += column.null_count
        values = numbers(column)
        if values is None or not np.isfinite(values).any():
            return
        values = values[np.isfinite(values)]
        count = len(values)
        total = self.measured + count
        # Moments of both parts put together, which loses no digits however long it goes on. Divided before it is
        # added up, so that the mean of very large values is one; their spread may be larger than any number.
        mean = float((values / count).sum())
        with np.errstate(over="ignore"):
            shift = np.float64(mean) - self.mean if self.measured else np.float64(0)
            apart = ((values - mean) ** 2).sum() + shift * shift * (self.measured * count / total)
        self._squares += float(apart)
        self.mean = self.mean * (self.measured / total) + mean * (count / total)
        self.least, self.most = min(self.least, float(values.min())), max(self.most, float(values.max()))
        self._keep(values)
        self.measured = total

    def _keep(self, values: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        """Keep a random sample: each value so far is kept with the same probability."""
        room = min(max(KEPT_VALUES - self.measured, 0), len(values))
        self._kept[self.measured : self.measured + room] = values[:room]
        numbers = np.arange(self.measured + room, self.measured + len(values))
        places = self._random.integers(0, numbers + 1) if len(numbers) else numbers
        chosen = places < KEPT_VALUES
        self._kept[places[chosen]] = values[room:][chosen]

    def as_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"sampled": self.sampled, "nulls": self.nulls}
        if self.measured:
            kept = self._kept[: min(self.measured, KEPT_VALUES)]
            facts |= {"least": self.least, "most": self.most, "mean": _short(self.mean)}
            facts["stddev"] = _short(math.sqrt(self._squares / self.measured))
            # Halved, so that the distance of two values never overflows.
            cuts = (np.quantile(kept / 2, list(QUANTILES.values())) * 2).tolist()
            facts |= {name: _short(cut) for name, cut in zip(QUANTILES, cuts, strict=True)}
        return facts


class Distributions:
    """The distributions of every field of every sensor table, of readings since this object was made."""

    def __init__(self, log_folder: Path, heads: Mapping[int, int]) -> None:
        self._folder = log_folder
        self._seen = dict(heads)
        self._fields: dict[int, dict[str, Distribution]] = {}
        self._lock = threading.Lock()
        self._random = np.random.default_rng(0)

    def sample(self, tables: Sequence[Table], heads: Mapping[int, int]) -> None:
        """One round: tables that have new rows, those that waited longest first."""
        moved = [t for t in tables if heads.get(t.id, 0) > self._seen.get(t.id, 0)]
        waiting = list(self._fields)
        moved.sort(key=lambda t: waiting.index(t.id) if t.id in self._fields else -1)
        for table in moved[:TABLES_A_ROUND]:
            first, self._seen[table.id] = self._seen.get(table.id, 0), heads[table.id]
            batches = self._read(table, first, heads[table.id])
            with self._lock:
                # Put at the end: this dict is ordered by how long fields have waited.
                known = self._fields.pop(table.id, {})
                self._fields[table.id] = known
                for batch in batches:
                    for name, column in zip(batch.schema.names, batch.columns, strict=True):
                        known.setdefault(name, Distribution()).add(column)
        gone = self._fields.keys() - {t.id for t in tables}
        with self._lock:
            for table_id in gone:
                del self._fields[table_id]

    def of(self, table: Table) -> list[dict[str, Any]]:
        """A row per field of the stream, in its order."""
        assert table.stream is not None
        with self._lock:
            known = self._fields.get(table.id, {})
            return [
                {"field": f.name, "type": str(f.type), **known.get(f.name, Distribution()).as_dict()}
                for f in table.stream.fields
            ]

    def _read(self, table: Table, first: int, end: int) -> list[pa.RecordBatch | pa.Table]:
        assert table.stream is not None
        names = [f.name for f in table.stream.fields]
        pieces = slices(list_readable(self._folder, table.id), first, end)
        if not pieces:
            return []
        rows = np.array([p.rows for p in pieces], np.float64)
        count = min(_FILES_A_TABLE, len(pieces))
        chosen = self._random.choice(len(pieces), count, replace=False, p=rows / rows.sum())
        out: list[pa.RecordBatch | pa.Table] = []
        for index in chosen.tolist():
            try:
                out.append(_some_rows(pieces[index], names, ROWS_A_ROUND // count, self._random))
            except (OSError, pa.ArrowException, PenstockError):
                continue  # compaction has replaced the file, or it is damaged, which its readers report
        return out


def _some_rows(piece: Slice, names: list[str], count: int, random: np.random.Generator) -> pa.RecordBatch | pa.Table:
    """Rows of one file: a run of neighbours where it is compacted, else spread over one of its batches."""
    if piece.format == "parquet":
        rows = min(count, piece.rows)
        offset = int(random.integers(piece.rows - rows + 1))
        return read_slice(replace(piece, first=piece.first + offset, skip=piece.skip + offset, rows=rows), names)
    # Without the checksum, which would read all of the file: nothing but these figures depends on it.
    reader = pa.ipc.open_file(pa.memory_map(str(piece.path)))
    batch = reader.get_batch(int(random.integers(reader.num_record_batches)))
    batch = batch.select([n for n in names if n in batch.schema.names])
    if batch.num_rows <= count:
        return batch
    return batch.take(pa.array(np.linspace(0, batch.num_rows - 1, count).astype(np.int64)))


def _short(value: float) -> float:
    """Round a number to the digits that a sample can support."""
    return float(f"{value:.6g}")


MARK_EVERY_S = 15.0
_MARKS = 4
Counts = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class _Mark:
    """Readings stored up to a moment: of a table, and of each of its sensors by sid."""

    at_s: float
    total: int
    by_sid: Counts


class Rates:
    """Rates between counts: `mark` is called every 15 seconds, and rates are computed on request."""

    def __init__(self, ingest: Ingest, now_s: Callable[[], float] = time.monotonic) -> None:
        self._ingest = ingest
        self._now_s = now_s
        self._marks: dict[int, deque[_Mark]] = {}
        self._marked_s = now_s()

    def mark(self, tables: Sequence[Table]) -> None:
        at_s = self._now_s()
        marks: dict[int, deque[_Mark]] = {}
        for table in tables:
            kept = self._marks.get(table.id) or deque([self._nothing()], maxlen=_MARKS)
            last = kept[-1]
            with contextlib.suppress(PenstockError):  # dropped a moment ago
                total = self._ingest.counters(table.name)["accepted"]
                # A copy: ingest returns a view of an array five times as large.
                by_sid = last.by_sid if total == last.total else self._ingest.sensors(table.name)["accepted"].copy()
                kept.append(_Mark(at_s, total, by_sid))
                marks[table.id] = kept
        self._marks, self._marked_s = marks, at_s

    def _nothing(self) -> _Mark:
        """Before the last mark a table that it does not have had no readings."""
        return _Mark(self._marked_s, 0, np.empty(0, np.int64))

    def of(self, table: Table) -> float:
        """Readings of a table per second."""
        before = self._before(table)
        total = self._ingest.counters(table.name)["accepted"]
        return round(float(total - before.total) / self._since_s(before), 3)

    def by_sid(self, table: Table, accepted: Counts) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The same of each sensor, given the counts as they are now."""
        before = self._before(table)
        was = np.zeros(len(accepted), np.int64)
        was[: len(before.by_sid)] = before.by_sid[: len(was)]
        return np.round((accepted - was) / self._since_s(before), 3)

    def _before(self, table: Table) -> _Mark:
        kept = self._marks.get(table.id)
        return kept[0] if kept else self._nothing()

    def _since_s(self, mark: _Mark) -> float:
        """A time below one second counts as one second, since a rate over less is meaningless."""
        return max(self._now_s() - mark.at_s, 1.0)


ROUND_S = 1.0


class Sampler:
    """The thread that watches all sensor tables, from its start on."""

    def __init__(self, log: StreamLog, ingest: Ingest, tables: Callable[[], list[Table]]) -> None:
        self._log = log
        self._tables = tables
        self.rates = Rates(ingest)
        self.distributions = Distributions(log.folder, log.heads())
        self._marked_s = time.monotonic()
        self._service = Service("sampler", self._round, first_s=ROUND_S)

    def start(self) -> None:
        self._service.start()

    def close(self) -> None:
        self._service.stop()
        self._service.join(5)

    def services(self) -> list[Service]:
        return [self._service]

    def look(self) -> None:
        """One round of sampling values."""
        self.distributions.sample(self._tables(), self._log.heads())

    def _round(self) -> float:
        self.look()
        if time.monotonic() - self._marked_s >= MARK_EVERY_S:
            self._marked_s = time.monotonic()
            self.rates.mark(self._tables())
        return ROUND_S
