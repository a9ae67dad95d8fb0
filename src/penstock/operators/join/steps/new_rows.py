"""The new rows of one part of a step: the rows that it joins, and those of them that begin a combination.

Where a row begins combinations follows from log positions and hot keys, never from the predicates of a stream. So joins
of a group divide rows in the same way, together or apart, and parts need not agree on which of these they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from penstock.operators.join.kernels.choice import OURS
from penstock.operators.join.kernels.keys import Ints, hot_keys, part_of, shared_out
from penstock.operators.join.kernels.runs import Run
from penstock.operators.join.steps.buffers import BufferFolder
from penstock.operators.join.steps.key_ranges import RANGES, WHOLE, Share
from penstock.operators.join.steps.prepared_join import BufferedStream, PreparedJoin
from penstock.operators.join.steps.rows import (
    Bag,
    SliceReader,
    StreamRows,
    belongs,
    laid_out,
    loose,
    missing_rows,
    no_bag,
    read_bag,
)
from penstock.operators.join.steps.units import JoinUnit, TableStep


class NewRows:
    """Reads the new rows for the units of one task: each stream once for all joins."""

    def __init__(self, buffers: Path, reader: SliceReader) -> None:
        self._buffers = buffers
        self._reader = reader
        self._definitions = reader.definitions
        self._bags: dict[tuple[str, int, int], Bag] = {}
        self._fresh: dict[tuple[str, int, int, int], Run] = {}

    def of(self, join: PreparedJoin, unit: JoinUnit, shared_out_as: PreparedJoin) -> list[StreamRows]:
        """Each stream's rows for this unit; keys that are hot in another join are shared out as there."""
        if not join.keyed:
            return [self._without_key(stream, unit) for stream in join.streams]
        hinted = join.plan.algorithm is not None and join.plan.algorithm not in OURS
        hot = np.empty(0, np.int64)
        if unit.parts > 1 and not hinted:
            bags = [self._bag(stream, unit) for stream in shared_out_as.streams]
            hot = hot_keys([bag.key for bag in bags if bag.key is not None], unit.parts)
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
        key = (self._name(stream), 0, step.start, step.end)
        if key not in self._fresh:
            self._fresh[key] = laid_out(self._bag(stream, unit), step.start, step.end)
        fresh = self._fresh[key]
        starts = fresh if unit.parts == 1 else fresh.take(np.flatnonzero(shared_out(fresh.pos, unit.part, unit.parts)))
        return self._stream_rows(stream, step, [WHOLE], fresh, starts, fresh)

    def _with_key(self, stream: BufferedStream, hot: Ints, unit: JoinUnit) -> StreamRows:
        """Each part has its own keys; rows with a hot one go to all, and each begins with its share of them."""
        step, bag = unit.tables[stream.table_id], self._bag(stream, unit)
        key = (self._name(stream), unit.part, step.start, step.end)
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
