"""One stream's rows for one part of a step: new ones from the log, old ones from buffers, the rest from the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, VERSION_COLUMN
from penstock.errors import PenstockError, error
from penstock.operators.evaluate import evaluate, evaluate_mask, evaluate_static
from penstock.operators.joins.keys import Ints, key_numbers, part_of
from penstock.operators.joins.runs import NO_KEY, Run, build_run, cut_below
from penstock.pipeline.definitions import Definitions
from penstock.pipeline.joins.buffers import BufferFolder, Gone
from penstock.pipeline.joins.prepared import Stream, link_column
from penstock.pipeline.readings import flat_columns, slice_schema, stream_fields
from penstock.streams.segments import Segment, Slice, list_readable, read_slice, slices


@dataclass(slots=True)
class LogReader:
    """Reads slices of the log for all streams of a task: each slice once per table and set of columns."""

    log: Path
    definitions: Definitions
    _kept: dict[tuple[int, Slice, tuple[str, ...]], pa.Table] = field(default_factory=dict)
    _listed: dict[int, list[Segment]] = field(default_factory=dict)

    def segments(self, table_id: int) -> list[Segment]:
        if table_id not in self._listed:
            self._listed[table_id] = list_readable(self.log, table_id)
        return self._listed[table_id]

    def read(self, stream: Stream, piece: Slice, keep: bool = True) -> Bag:
        """The rows of a slice that pass the stream's own predicates."""
        state = self.definitions.state
        table, static = state.tables_by_id[stream.table_id], state.rows(stream.table_id)
        wanted = stream.reads
        fields = stream_fields(table, wanted)
        known = (stream.table_id, piece, tuple(f.name for f in fields))
        rows = self._kept.get(known)
        if rows is None:
            rows = read_slice(piece, schema=slice_schema(fields))
            if keep:
                self._kept[known] = rows
        vids = rows.column(VERSION_COLUMN.name).to_numpy()
        pos: Ints = np.arange(piece.first, piece.end, dtype=np.int64)
        if stream.static_predicate is not None:
            mask = evaluate_static(stream.static_predicate, static.versions())[vids]
            if not mask.all():
                chosen = np.flatnonzero(mask)
                rows, vids, pos = rows.take(pa.array(chosen)), vids[chosen], pos[chosen]
        columns = flat_columns(table, wanted, rows, vids, static)
        functions = self.definitions.functions()
        count = len(pos)
        keep_rows = evaluate_mask(stream.stream_predicate, columns, count, functions)
        key = None
        if stream.keys:
            key, has_key = key_numbers([evaluate(k, columns, count, functions) for k in stream.keys])
            keep_rows &= has_key
        ts = columns[TIME_COLUMN].cast(pa.int64()).to_numpy()
        carried = {name: columns[name] for name in stream.columns}
        for number, parts in enumerate(stream.linked):
            numbers, has_key = key_numbers([evaluate(part, columns, count, functions) for part in parts])
            carried[link_column(number)] = pa.array(numbers)
            keep_rows &= has_key
        return Bag(pos, ts, key, carried).keep(keep_rows)


@dataclass(frozen=True, slots=True)
class Bag:
    """Rows that passed, in log order."""

    pos: Ints
    ts: Ints
    key: Ints | None
    columns: Mapping[str, pa.Array]

    def keep(self, mask: np.ndarray) -> Bag:
        if mask.all():
            return self
        chosen = np.flatnonzero(mask)
        index = pa.array(chosen)
        key = self.key[chosen] if self.key is not None else None
        return Bag(self.pos[chosen], self.ts[chosen], key, {n: c.take(index) for n, c in self.columns.items()})


def no_bag(stream: Stream, definitions: Definitions) -> Bag:
    empty = np.empty(0, np.int64)
    types = {c.name: c.type.to_arrow() for c in definitions.state.tables_by_id[stream.table_id].flat_columns()}
    columns = {n: pa.nulls(0, types[n]) for n in stream.columns}
    columns |= {link_column(n): pa.nulls(0, pa.int64()) for n in range(len(stream.linked))}
    return Bag(empty, empty, empty if stream.keys else None, columns)


def missing_rows(table_id: int, first: int, end: int) -> PenstockError:
    return error("corrupt_segment", segment=f"{table_id}/{first:016d}-{end:016d}", detail="a file is missing")


def join_bags(bags: Sequence[Bag]) -> Bag:
    if len(bags) == 1:
        return bags[0]
    first = bags[0]
    key = np.concatenate([b.key for b in bags if b.key is not None]) if first.key is not None else None
    return Bag(
        np.concatenate([b.pos for b in bags]),
        np.concatenate([b.ts for b in bags]),
        key,
        {n: pa.concat_arrays([b.columns[n] for b in bags]) for n in first.columns},
    )


@dataclass(slots=True)
class StreamRows:
    """Implements `operators.joins.step.Rows` for one input, part and step."""

    stream: Stream
    reader: LogReader
    folder: BufferFolder
    first: int  # where the table's log begins
    start: int  # where the step begins
    end: int
    fresh: Run
    starts: Run
    part: int
    parts: int
    own: Run  # the new rows that belong to this part and go into its buffers
    guests: list[StreamRows] = field(default_factory=list)  # other parts that own a hot key of this step
    kept: list[Run] = field(init=False)
    _gone: list[Gone] = field(init=False)
    _read: dict[tuple[Slice, ...], Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kept = self.folder.runs(self.start)
        self._gone = self.folder.gone()

    def _unknown(self, first: int, end: int, low: int) -> Iterator[tuple[int, int]]:
        """What of a gap between runs has to be read: not what is known to lie before a time."""
        for gone in self._gone:
            if gone.max_ts < low and gone.first < end and gone.end > first:
                if first < gone.first:
                    yield first, gone.first
                first = max(first, gone.end)
        if first < end:
            yield first, end

    def old(self, low: int, high: int) -> Sequence[Run]:
        found: list[Run] = []
        at = self.first
        for run in [*self.kept, None]:
            gap_end = run.first if run is not None else self.start
            for first, end in self._unknown(at, gap_end, low):
                found.extend(self._from_log(first, end, low, high))
            if run is not None:
                if len(run) and run.max_ts >= low and run.min_ts <= high:
                    # What retention has taken is gone, whether or not it is still in memory.
                    found.append(run if run.first >= self.first else cut_below(run, self.first))
                at = max(at, run.end)
        for guest in self.guests:
            found.extend(guest.old(low, high))
        return found

    def weight(self) -> float:
        runs = [r for r in (*self.kept, self.fresh) if len(r)]
        if not runs:
            return 0.0
        span = max(r.max_ts for r in runs) - min(r.min_ts for r in runs)
        return sum(map(len, runs)) / max(1, span)

    def runs(self) -> int:
        return len(self.kept)

    def near(self) -> int:
        return sum(map(len, self.kept))

    @property
    def start_of_fresh(self) -> int:
        return self.start

    def _from_log(self, first: int, end: int, low: int, high: int) -> list[Run]:
        """Rows that no buffer holds, by time: neighbouring files become one run, for as long as the step lasts."""
        runs = []
        segments = self.reader.segments(self.stream.table_id)
        if sum(piece.rows for piece in slices(segments, first, end)) != end - first:
            raise missing_rows(self.stream.table_id, first, end)
        for group in _neighbours(slices(segments, first, end, low, high)):
            if group not in self._read:
                self._read[group] = read_run(self.reader, self.stream, group, self.part, self.parts)
            runs.append(self._read[group])
        return [r for r in runs if len(r)]

    def read_back(self) -> list[Run]:
        """What had to be read from the log because no buffer held it."""
        return list(self._read.values())


# So many rows of the log at most become one run when they are read back.
_GROUP_ROWS = 1_000_000


def _neighbours(pieces: Sequence[Slice]) -> list[tuple[Slice, ...]]:
    groups: list[list[Slice]] = []
    for piece in pieces:
        last = groups[-1] if groups else None
        if last and last[-1].end == piece.first and piece.end - last[0].first <= _GROUP_ROWS:
            last.append(piece)
        else:
            groups.append([piece])
    return [tuple(g) for g in groups]


def read_run(reader: LogReader, stream: Stream, pieces: Sequence[Slice], part: int, parts: int) -> Run:
    """The rows of neighbouring slices that belong to one part, laid out."""
    bag = read_bag(reader, stream, pieces)
    if bag.key is not None and parts > 1:
        bag = bag.keep(part_of(bag.key, parts) == part)
    return laid_out(bag, pieces[0].first, pieces[-1].end)


def read_bag(reader: LogReader, stream: Stream, pieces: Sequence[Slice]) -> Bag:
    return join_bags([reader.read(stream, piece) for piece in pieces])


def laid_out(bag: Bag, first: int, end: int) -> Run:
    return build_run(first, end, bag.ts, bag.pos, bag.key, bag.columns)


def loose(bag: Bag, first: int, end: int) -> Run:
    """Rows that only begin combinations: nobody looks anything up in them."""
    return Run(first, end, bag.ts, bag.pos, bag.key if bag.key is not None else NO_KEY, bag.columns)
