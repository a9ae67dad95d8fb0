"""APPROX_HISTOGRAM: how many values lie in each bar, within an error for certain.

A cell knows of each bar that occurs how many values it has, and the times of the oldest and the newest. So where BEGIN cuts a cell, bars of
few values are known all the same: of a bar with times on both sides all but two are uncertain.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.aggregate.approximate.base import CUT, Approximate, Coarseness
from penstock.operators.aggregate.partials.base import Ints, State, Values, parts_per_cell
from penstock.types import Type

BARS_MAX = 1000
_BAR, _COUNT, _OLDEST, _NEWEST = range(4)


def edges_of(low: float, high: float, bars: int) -> npt.NDArray[np.float64]:
    """The edges of bars of equal width: one more than there are bars."""
    return np.array([*(low + (high - low) * (place / bars) for place in range(bars)), high])


class ApproxHistogram(Approximate):
    """Counts of values in [edge, next edge), below the first edge and from the last one on. NaN is in none.

    `bars` holds four whole numbers per bar that occurs: its number, how many values, the oldest and the newest time.
    """

    name = "approx_histogram"
    functions = frozenset({"approx_histogram", "approx_histogram_error"})
    share_of_error = 1.5  # as APPROX_COUNT

    def __init__(
        self, types: tuple[Type, ...], epsilon: float, coarseness: Coarseness, bars: tuple[int, float, float]
    ) -> None:
        super().__init__(types, epsilon, coarseness)
        count, low, high = bars
        self._edges = edges_of(low, high, count)
        self._bars = count + 2

    def own(self) -> dict[str, tuple[Any, Any]]:
        return {"count": (np.int64, 0), "bars": (object, None)}

    def take(self, state: State, values: Values) -> None:
        reals = values.numbers[0].astype(np.float64)
        rows = np.flatnonzero(~np.isnan(reals))
        bars = np.searchsorted(self._edges, reals[rows], side="right")
        cells, times = values.cells[rows], values.times[rows]
        state["count"] += np.bincount(cells, minlength=len(state["count"]))
        found = _joined(np.column_stack([cells * self._bars + bars, np.ones(len(rows), np.int64), times, times]))
        owners, found[:, _BAR] = np.divmod(found[:, _BAR], self._bars)
        for cell in np.unique(owners).tolist():
            own = state["bars"][cell]
            parts = [found[owners == cell]] if own is None else [_table(own), found[owners == cell]]
            state["bars"][cell] = _joined(np.concatenate(parts)).tobytes()

    def join(self, state: State, at: Ints, other: State, prefix: str) -> None:
        np.add.at(state[prefix + "count"], at, other[prefix + "count"])
        for cell, parts in parts_per_cell(state[prefix + "bars"], at, other[prefix + "bars"]):
            whole = parts[0] if len(parts) == 1 else _joined(np.concatenate([_table(p) for p in parts])).tobytes()
            state[prefix + "bars"][cell] = whole

    def restricted(self, state: State, low: int) -> State:
        found = self.empty(len(state["newest"]))
        found["newest"] = state["newest"]
        for cell, own in enumerate(state["bars"]):
            if own is None:
                continue
            bars = _table(own)
            bars = bars[bars[:, _NEWEST] >= low]
            is_cut = bars[:, _OLDEST] < low
            sure, cut = bars.copy(), bars[is_cut & (bars[:, _COUNT] > 2)]
            sure[is_cut, _COUNT] = 1  # the newest is inside, the oldest is not
            sure[is_cut, _OLDEST] = sure[is_cut, _NEWEST]
            cut[:, _COUNT] -= 2
            for prefix, part in (("", sure), (CUT, cut)):
                if len(part):
                    found[prefix + "bars"][cell] = part.tobytes()
                    found[prefix + "count"][cell] = part[:, _COUNT].sum()
        return found

    def _bounds(self, state: State) -> tuple[Ints, Ints]:
        """The least and the largest count of each bar, a line per cell."""
        lowers, more = (self._counts(state[prefix + "bars"]) for prefix in ("", CUT))
        return lowers, lowers + more

    def _counts(self, field: Any) -> Ints:
        counts: Ints = np.zeros((len(field), self._bars), np.int64)
        for cell, own in enumerate(field):
            if own is not None:
                bars = _table(own)
                counts[cell, bars[:, _BAR]] = bars[:, _COUNT]
        return counts

    def within(self, state: State) -> npt.NDArray[np.bool_]:
        lowers, uppers = self._bounds(state)
        values = (lowers + uppers) // 2
        kept = (values - lowers <= self.epsilon * lowers) & (uppers - values <= self.epsilon * uppers)
        return np.asarray(kept.all(axis=1), np.bool_)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        lowers, uppers = self._bounds(state)
        counts = (lowers + uppers) // 2
        if function.endswith("_error"):
            return pa.array((uppers - counts).max(axis=1, initial=0).astype(np.float64))
        lows, highs = zip(*pairwise([None, *self._edges.tolist(), None]), strict=True)
        cells = len(counts)
        bars = pa.StructArray.from_arrays(
            [
                pa.array(lows * cells, pa.float64()),
                pa.array(highs * cells, pa.float64()),
                pa.array(counts.ravel(), pa.int64()),
            ],
            ["low", "high", "count"],
        )
        ends = pa.array(np.arange(cells + 1, dtype=np.int32) * self._bars)
        return pa.ListArray.from_arrays(ends, bars).cast(type_.to_arrow())


def _table(data: bytes) -> Ints:
    return np.frombuffer(data, np.int64).reshape(-1, 4)


def _joined(bars: Ints) -> Ints:
    """One line per bar."""
    bars = bars[np.argsort(bars[:, _BAR], kind="stable")]
    if not len(bars):
        return bars
    firsts = np.flatnonzero(np.append(True, np.diff(bars[:, _BAR]) != 0))
    return np.column_stack(
        [
            bars[firsts, _BAR],
            np.add.reduceat(bars[:, _COUNT], firsts),
            np.minimum.reduceat(bars[:, _OLDEST], firsts),
            np.maximum.reduceat(bars[:, _NEWEST], firsts),
        ]
    )
