"""Sides as arrays for kernels: the rows of all streams one after the other, without rows that cannot have a partner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.operators.join.kernels.bounds import UNBOUNDED, Bounds
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.sides import Bools, Float64s, Int64s, Side


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
