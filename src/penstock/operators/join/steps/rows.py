"""One stream's rows for one part of a step: new ones from the log, old ones from buffers, the rest from the log."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.cache import Cache
from penstock.catalog.model import TIME_COLUMN, VERSION_COLUMN
from penstock.cycle.definitions import Definitions
from penstock.cycle.log_batch import flat_columns, missing_rows, slice_schema, stream_fields
from penstock.expr.conditions import true_rows
from penstock.expr.evaluate import evaluate, evaluate_static_of
from penstock.operators.join.kernels.keys import Bools, Ints, hot_keys, key_numbers, part_of, shared_out
from penstock.operators.join.kernels.runs import NO_KEY, Run, build_run, cut_below
from penstock.operators.join.steps.buffers import BufferedRun, BufferFolder, DroppedRows
from penstock.operators.join.steps.key_ranges import RANGES, WHOLE, KeyRange, Share, without
from penstock.operators.join.steps.prepared_join import BufferedStream, PreparedJoin, link_column
from penstock.operators.join.steps.units import JoinUnit, TableStep
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, Slice, list_readable, slices


@dataclass(slots=True)
class SliceReader:
    """Reads slices of the log for all streams of a task: each slice once per table and set of columns, if memory allows."""

    log: Path
    definitions: Definitions
    memory_bytes: int
    _kept: Cache[Hashable, pa.Table] = field(init=False)
    _listed: dict[int, list[Segment]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._kept = Cache(most_bytes=self.memory_bytes // 2)

    def segments(self, table_id: int) -> list[Segment]:
        if table_id not in self._listed:
            self._listed[table_id] = list_readable(self.log, table_id)
        return self._listed[table_id]

    def read(self, stream: BufferedStream, piece: Slice) -> Bag:
        """The rows of a slice that pass the stream's own predicates."""
        state = self.definitions.state
        table, static = state.tables_by_id[stream.table_id], state.rows(stream.table_id)
        wanted = stream.reads
        fields = stream_fields(table, wanted)
        known = (stream.table_id, piece, tuple(f.name for f in fields))
        rows = self._kept.get(known)
        if rows is None:
            rows = read_slice(piece, schema=slice_schema(fields))
            self._kept.put(known, rows, rows.nbytes)
        vids = rows.column(VERSION_COLUMN.name).to_numpy()
        pos: Ints = np.arange(piece.first, piece.end, dtype=np.int64)
        if stream.static_predicate is not None:
            mask = evaluate_static_of(stream.static_predicate, static.versions(), vids)
            if not mask.all():
                chosen = np.flatnonzero(mask)
                rows, vids, pos = rows.take(pa.array(chosen)), vids[chosen], pos[chosen]
        columns = flat_columns(table, wanted, rows, vids, static)
        functions = self.definitions.functions()
        count = len(pos)
        keep_rows = true_rows(stream.stream_predicate, columns, count, functions, stream.table_id)
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


def no_bag(stream: BufferedStream, definitions: Definitions) -> Bag:
    empty = np.empty(0, np.int64)
    types = {c.name: c.type.to_arrow() for c in definitions.state.tables_by_id[stream.table_id].flat_columns()}
    columns = {n: pa.nulls(0, types[n]) for n in stream.columns}
    columns |= {link_column(n): pa.nulls(0, pa.int64()) for n in range(len(stream.linked))}
    return Bag(empty, empty, empty if stream.keys else None, columns)


@dataclass(slots=True)
class StreamRows:
    """Implements `operators.join.kernels.step.RunRows` for one input, part and step."""

    stream: BufferedStream
    reader: SliceReader
    folder: BufferFolder
    first: int  # where the table's log begins
    start: int  # where the step begins
    end: int
    fresh: Run
    starts: Run
    own: Run  # the new rows that belong to this part and go into its buffers
    shares: Sequence[Share]  # the keys to search in old rows: its own, and hot keys of other parts
    kept: list[Run] = field(init=False)
    rows_read_back: int = 0
    _gone: list[DroppedRows] = field(init=False)
    _holes: list[KeyRange] = field(init=False)
    _read: Cache[Hashable, BufferedRun] = field(init=False)

    def __post_init__(self) -> None:
        areas = [KeyRange(self.first, self.start, share) for share in self.shares]
        held = self.folder.runs(areas)
        self.kept = [h.run for h in held]
        self._gone = self.folder.gone()
        self._holes = without(areas, [h.cells for h in held])
        self._read = Cache(most_bytes=self.reader.memory_bytes // 4)

    def old(self, low: int, high: int) -> Iterable[Run]:
        # One at a time: together they may be more than memory holds.
        for run in self.kept:
            if len(run) and run.max_ts >= low and run.min_ts <= high:
                # What retention has taken is gone, whether or not it is still in memory.
                yield run if run.first >= self.first else cut_below(run, self.first)
        too_old = [g.cells for g in self._gone if g.max_ts < low]
        for hole in without(self._holes, too_old):
            yield from self._from_log(hole, low, high)

    def weight(self) -> float:
        runs = [r for r in (*self.kept, self.fresh) if len(r)]
        if not runs:
            return 0.0
        span = max(r.max_ts for r in runs) - min(r.min_ts for r in runs)
        return sum(map(len, runs)) / max(1, span)

    @property
    def whole(self) -> bool:
        return not self._holes

    def runs(self) -> int:
        return len(self.kept)

    def near(self) -> int:
        return sum(map(len, self.kept))

    def _from_log(self, hole: KeyRange, low: int, high: int) -> Iterator[Run]:
        """Rows that no buffer holds, by time: neighbouring files become one run, for as long as memory allows."""
        segments = self.reader.segments(self.stream.table_id)
        if sum(piece.rows for piece in slices(segments, hole.first, hole.end)) != hole.end - hole.first:
            raise missing_rows(self.stream.table_id, hole.first, hole.end)
        for group in _neighbours(slices(segments, hole.first, hole.end, low, high)):
            held = self._read.get((group, hole.share))
            if held is None:
                bag = read_bag(self.reader, self.stream, group)
                if bag.key is not None:
                    bag = bag.keep(belongs(bag.key, hole.share))
                run = laid_out(bag, group[0].first, group[-1].end)
                held = BufferedRun(KeyRange(run.first, run.end, hole.share), run)
                self._read.put((group, hole.share), held, run.nbytes)
                self.rows_read_back += len(run)
            if len(held.run):
                yield held.run

    def read_back(self) -> list[BufferedRun]:
        """Runs that were read from the log because no buffer had them, and are still in memory."""
        return self._read.values()


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


def belongs(key: Ints, share: Share) -> Bools:
    """Which keys are a share's."""
    if share == WHOLE:
        return np.ones(len(key), np.bool_)
    place = part_of(key, RANGES)
    mine: Bools = (place >= share.low) & (place < share.high)
    return mine


def read_bag(reader: SliceReader, stream: BufferedStream, pieces: Sequence[Slice]) -> Bag:
    """The rows of neighbouring slices."""
    bags = [reader.read(stream, piece) for piece in pieces]
    if len(bags) == 1:
        return bags[0]
    keys = [bag.key for bag in bags if bag.key is not None]
    return Bag(
        np.concatenate([bag.pos for bag in bags]),
        np.concatenate([bag.ts for bag in bags]),
        np.concatenate(keys) if keys else None,
        {name: pa.concat_arrays([bag.columns[name] for bag in bags]) for name in bags[0].columns},
    )


def laid_out(bag: Bag, first: int, end: int) -> Run:
    return build_run(first, end, bag.ts, bag.pos, bag.key, bag.columns)


def loose(bag: Bag, first: int, end: int) -> Run:
    """A run of rows that only begin combinations: without buckets, since it is never probed."""
    return Run(first, end, bag.ts, bag.pos, bag.key if bag.key is not None else NO_KEY, bag.columns)


class NewRows:
    """Reads the new rows for the units of one task: each stream once for all joins.

    Where a row begins combinations follows from log positions and hot keys, never from the predicates of a stream. So joins
    of a group divide rows in the same way, together or apart, and parts need not agree on which of these they do.
    """

    def __init__(self, buffers: Path, reader: SliceReader) -> None:
        self._buffers = buffers
        self._reader = reader
        self._definitions = reader.definitions
        self._bags: dict[tuple[str, int, int], Bag] = {}
        self._fresh: dict[tuple[str, Share, int, int], Run] = {}

    def hot_keys(self, join: PreparedJoin, unit: JoinUnit) -> Ints:
        """The keys of a join whose new rows are too many for one part. All parts find the same."""
        if unit.parts == 1 or not join.keyed:
            return np.empty(0, np.int64)
        bags = [self._bag(stream, unit) for stream in join.streams]
        return hot_keys([bag.key for bag in bags if bag.key is not None], unit.parts)

    def of(self, join: PreparedJoin, unit: JoinUnit, hot: Ints) -> list[StreamRows]:
        """Each stream's rows for this unit; those with a hot key are shared out between the parts."""
        if not join.keyed:
            return [self._without_key(stream, unit) for stream in join.streams]
        return [self._with_key(stream, hot, unit) for stream in join.streams]

    def _bag(self, stream: BufferedStream, unit: JoinUnit) -> Bag:
        """All new rows of a stream, of all parts."""
        step = unit.tables[stream.table_id]
        key = (self._name(stream), step.start, step.end)
        if key not in self._bags:
            if sum(piece.rows for piece in step.slices) != step.end - step.start:
                raise missing_rows(stream.table_id, step.start, step.end)
            empty = no_bag(stream, self._definitions)
            self._bags[key] = read_bag(self._reader, stream, step.slices) if step.slices else empty
        return self._bags[key]

    def _without_key(self, stream: BufferedStream, unit: JoinUnit) -> StreamRows:
        """All parts have the same buffers, and share out the new rows."""
        step = unit.tables[stream.table_id]
        key = (self._name(stream), WHOLE, step.start, step.end)
        if key not in self._fresh:
            self._fresh[key] = laid_out(self._bag(stream, unit), step.start, step.end)
        fresh = self._fresh[key]
        starts = fresh if unit.parts == 1 else fresh.take(np.flatnonzero(shared_out(fresh.pos, unit.part, unit.parts)))
        return self._stream_rows(stream, step, [WHOLE], fresh, starts, fresh)

    def _with_key(self, stream: BufferedStream, hot: Ints, unit: JoinUnit) -> StreamRows:
        """Each part has its own keys; rows with a hot one go to all, and each begins with its share of them."""
        step, bag = unit.tables[stream.table_id], self._bag(stream, unit)
        key = (self._name(stream), unit.share, step.start, step.end)
        assert bag.key is not None
        mine = belongs(bag.key, unit.share)
        if key not in self._fresh:
            self._fresh[key] = laid_out(bag.keep(mine), step.start, step.end)
        own = self._fresh[key]
        if len(hot) == 0:
            return self._stream_rows(stream, step, [unit.share], own, own, own)
        is_hot = np.isin(bag.key, hot)
        fresh = laid_out(bag.keep(mine | is_hot), step.start, step.end)
        begins = np.where(is_hot, shared_out(bag.pos, unit.part, unit.parts), mine)
        starts = loose(bag.keep(begins), step.start, step.end)
        elsewhere = {Share(r, r + 1) for r in part_of(hot, RANGES).tolist()}
        shares = [unit.share, *sorted(s for s in elsewhere if not unit.share.has(s))]
        return self._stream_rows(stream, step, shares, fresh, starts, own)

    def _stream_rows(
        self, stream: BufferedStream, step: TableStep, shares: Sequence[Share], fresh: Run, starts: Run, own: Run
    ) -> StreamRows:
        folder = BufferFolder(self._buffers / self._name(stream), shares[0])
        return StreamRows(stream, self._reader, folder, step.first, step.start, step.end, fresh, starts, own, shares)

    def _name(self, stream: BufferedStream) -> str:
        return stream.signature(self._definitions.state.functions)
