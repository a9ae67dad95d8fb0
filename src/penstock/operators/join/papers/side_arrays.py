"""Sides as arrays for kernels: the rows of all streams one after the other, without rows that cannot have a partner.

A join on a key can be cut into parts by the key's hash: no combination crosses parts, and a part's tables fit in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.join.kernels.bounds import UNBOUNDED, Bounds
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.sides import Bools, Float64s, Int64s, Side

ROWS_PER_PART = 30_000
MOST_PARTS = 64
# Not the multiplier of the buckets in `search`: the keys of one part must still spread over all buckets.
_MULTIPLIER = np.uint64(0xFF51AFD7ED558CCD)
_SHIFT = np.uint64(58)


class PackedSides(NamedTuple):
    """Stream s has rows [starts[s], starts[s + 1]). Its column c at row r is values[offsets[s, c] + r].

    `chosen[s]` are the positions in the side of the rows that were kept, in their order.
    """

    starts: Int64s
    ts: Int64s
    key: Int64s
    fresh: Bools
    values: Float64s
    offsets: Int64s
    chosen: tuple[Int64s, ...]

    @property
    def counts(self) -> Int64s:
        return np.diff(self.starts)


def pack(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None) -> PackedSides:
    """Leave out rows too far in time from every fresh one, and rows with a NULL that a condition loads: both find nothing."""
    loads = {load for program in conditions.programs for load in program.loads} if conditions else set()
    spans = _spans(sides, bounds)
    chosen: list[Int64s] = []
    for number, (side, (low, high)) in enumerate(zip(sides, spans, strict=True)):
        first, end = np.searchsorted(side.ts, low, "left"), np.searchsorted(side.ts, high, "right")
        rows = np.arange(first, max(first, end))
        for stream, column in loads:
            if stream == number and side.valid is not None:
                rows = rows[side.valid[column][rows]]
        chosen.append(rows)
    starts = np.concatenate(([0], np.cumsum([len(rows) for rows in chosen]))).astype(np.int64)
    keyed = sides[0].key is not None
    values, offsets = _columns(sides, chosen, starts, loads)
    return PackedSides(
        starts,
        np.concatenate([_take(side.ts, rows) for side, rows in zip(sides, chosen, strict=True)]),
        np.concatenate([_take(side.key, rows) for side, rows in zip(sides, chosen, strict=True)])
        if keyed
        else np.empty(0, np.int64),
        np.concatenate([_take(side.fresh, rows) for side, rows in zip(sides, chosen, strict=True)]),
        values,
        offsets,
        tuple(chosen),
    )


def original(packed: PackedSides, stream: int, rows: Int64s) -> Int64s:
    """The positions in the stream's side of packed rows."""
    chosen, start = packed.chosen[stream], packed.starts[stream]
    together = len(chosen) > 0 and chosen[-1] - chosen[0] == len(chosen) - 1
    out: Int64s = rows + (chosen[0] - start) if together else chosen[rows - start]
    return out


def _take(values: np.ndarray | None, rows: Int64s) -> np.ndarray:
    assert values is not None, "all streams have a key or none has"
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return values[rows[0] : rows[-1] + 1]
    return values[rows]


def _spans(sides: Sequence[Side], bounds: Bounds) -> list[tuple[int, int]]:
    """Per stream the times between which its rows can be in a combination with a fresh row."""
    times = [side.ts[side.fresh] for side in sides]
    out = []
    for j in range(len(sides)):
        lows, highs = [2**62], [-(2**62)]
        for i, fresh in enumerate(times):
            if len(fresh):
                before, after = bounds.upper[j][i], bounds.upper[i][j]
                lows.append(int(fresh[0]) - (UNBOUNDED if before is None else before))
                highs.append(int(fresh[-1]) + (UNBOUNDED if after is None else after))
        out.append((min(lows), max(highs)))
    return out


def _columns(
    sides: Sequence[Side], chosen: Sequence[Int64s], starts: Int64s, loads: set[tuple[int, int]]
) -> tuple[Float64s, Int64s]:
    offsets = np.zeros((len(sides), 1 + max((column for _, column in loads), default=0)), np.int64)
    parts, filled = [np.empty(0)], 0
    for stream, column in sorted(loads):
        columns = sides[stream].columns
        assert columns is not None, "a condition loads a column of a side that has none"
        parts.append(_take(columns[column], chosen[stream]))
        offsets[stream, column] = filled - starts[stream]
        filled += len(chosen[stream])
    return np.concatenate(parts), offsets


def parts_of(sides: Sequence[Side]) -> Iterator[tuple[list[Side], list[Int64s]]]:
    """The parts as sides of their own, each in the order of time, with the rows that they came from."""
    count = 1
    while count < MOST_PARTS and count * ROWS_PER_PART < sum(map(len, sides)):
        count *= 2
    cut = []
    for side in sides:
        assert side.key is not None, "parts are cut by key"
        order, edges = _by_part(side.key, count)
        cut.append((_take_rows(side, order), order, edges))
    for part in range(count):
        spans = [slice(edges[part], edges[part + 1]) for _, _, edges in cut]
        yield (
            [_take_rows(side, span) for (side, _, _), span in zip(cut, spans, strict=True)],
            [order[span] for (_, order, _), span in zip(cut, spans, strict=True)],
        )


def _take_rows(side: Side, rows: Int64s | slice) -> Side:
    return Side(
        side.ts[rows],
        side.fresh[rows],
        None if side.key is None else side.key[rows],
        None if side.columns is None else side.columns[:, rows],
        None if side.valid is None else side.valid[:, rows],
    )


@kernel
def _by_part(key: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Rows part by part, in their order within each; and where each part begins."""
    mask = np.uint64(count - 1)  # of the MOST_PARTS highest values
    edges = np.zeros(count + 1, np.int64)
    for row in range(len(key)):
        edges[((np.uint64(key[row]) * _MULTIPLIER) >> _SHIFT & mask) + np.uint64(1)] += 1
    for part in range(count):
        edges[part + 1] += edges[part]
    order, fill = np.empty(len(key), np.int64), edges.copy()
    for row in range(len(key)):
        part = int((np.uint64(key[row]) * _MULTIPLIER) >> _SHIFT & mask)
        order[fill[part]] = row
        fill[part] += 1
    return order, edges
