"""Estimate the cells of an aggregate's full window from the rate of its table: for EXPLAIN, and to refuse what cannot fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.catalog.rows import StaticRows
from penstock.errors import error
from penstock.expr.evaluate import evaluate
from penstock.expr.windows import TimeWindow
from penstock.operators.aggregate.approximate.coarse_cells import cell_store
from penstock.operators.aggregate.partials.cell_sums import Panes
from penstock.operators.aggregate.partials.slices import number_groups
from penstock.operators.aggregate.partials.tiles import (
    CELL_ROWS,
    MANY_CELLS,
    SLOT_ROWS,
    WIDE_ROWS,
    TileStore,
    may_be_slot,
    tile_slots,
)
from penstock.operators.aggregate.shape import SECOND_US, Family, Measure, family_of, measures_of, slice_width
from penstock.sql.plan import AggregatePlan
from penstock.streams.log.segments import Segment, rows_within

CELL_BYTES, SLOT_BYTES = 8, 56
"""What tiles keep of each cell beside its state: its group and the number of its rows. And of each slot: its time and log positions, twice."""
FEW_ROWS = 2_000_000
"""A window with fewer rows is not looked at: whatever it is, its cells take little."""


@dataclass(frozen=True, slots=True)
class CellEstimate:
    """The cells of each partial of an aggregate by their width, and the bytes of all of them, for a full window."""

    rate: float
    levels: dict[int, int]
    nbytes: int

    @property
    def cells(self) -> int:
        return sum(self.levels.values())


def estimate_cells(plan: AggregatePlan, segments: Sequence[Segment], groups: int) -> CellEstimate | None:
    """None where it cannot be told: the window has no fixed length, or the log has no time yet."""
    length_us = window_us(plan)
    if length_us is None or not segments:
        return None
    known_us = max(s.max_ts for s in segments) - min(s.min_ts for s in segments)
    if known_us <= 0:
        return None
    rate = rows_within(segments, length_us) / min(length_us, known_us)
    levels = level_cells(rate, length_us, groups, plan.panes, SLOT_ROWS)
    every = min((call.every_us for call in plan.aggregates if call.every_us), default=None)
    if every is not None:
        levels = {every: math.ceil(length_us / every * min(groups, rate * every))}
    elif sum(levels.values()) > MANY_CELLS:
        levels = level_cells(rate, length_us, groups, plan.panes, WIDE_ROWS)
    slots = sum(cells / max(1.0, min(groups, rate * width)) for width, cells in levels.items())
    each = [state_bytes(measure) + CELL_BYTES for measure in measures_of(plan)]
    return CellEstimate(
        rate * SECOND_US, levels, int(sum(each) * sum(levels.values()) + len(each) * SLOT_BYTES * slots)
    )


def window_us(plan: AggregatePlan) -> int | None:
    """The length of a window that slides; None where it grows or counts rows."""
    window = plan.window
    if not isinstance(window, TimeWindow) or not window.slides or plan.latch is not None:
        return None
    low, high = window.resolve(0, 0)
    return high - low if window.end.anchor == "now" and high > low else None


def level_cells(rate: float, length_us: int, groups: int, panes: Panes | None, most_rows: int) -> dict[int, int]:
    """By width, how many cells a `TileStore` keeps of rows that come at a rate (per microsecond)."""
    width, left_us, found = slice_width(panes), length_us, dict[int, int]()
    while left_us > 0:
        wider = width * tile_slots(width)[0]
        filled = min(groups, rate * width)
        rows = rate * wider
        # Very many rows per slot are for very many cells: then it does not matter how many there are per cell.
        is_sparse = rows <= most_rows and (most_rows >= WIDE_ROWS or rows <= CELL_ROWS * filled * tile_slots(width)[0])
        is_sparse = is_sparse and may_be_slot(wider, panes.pane if panes is not None else 0)
        # The newest tiles stay as they are until they have passed: one and a half on average.
        here_us = min(left_us, 3 * wider // 2) if is_sparse else left_us
        found[width] = math.ceil(here_us / width * filled)
        left_us -= here_us
        width = wider
    return found


def state_bytes(measure: Measure) -> int:
    """About what the state of a cell takes: counts equal the number of its rows mostly, and take nothing."""
    partial = measure.make()
    return sum(100 if dtype is object else 8 for name, (dtype, _) in partial.fields().items() if name != "count")


def count_groups(family: Family, static: StaticRows) -> int:
    """How many groups there may be: those of the sensors, where keys are static; otherwise about as many as sensors."""
    if not family.keys:
        return 1
    versions = static.versions()
    if not family.is_static or not versions.num_rows:
        return max(1, int(versions.num_rows))
    groups, _ = number_groups([evaluate(key, versions, versions.num_rows) for key in family.keys], versions.num_rows)
    return int(groups.max(initial=0)) + 1


def check_cells_fit(plan: AggregatePlan, segments: Sequence[Segment], static: StaticRows, most_mb: int) -> None:
    """Raise over_budget where the cells of a full window alone would take more than the memory for all."""
    if not all(isinstance(cell_store(measure.make(), measure.every_us), TileStore) for measure in measures_of(plan)):
        return
    length_us = window_us(plan)
    if length_us is None or rows_within(segments, length_us) < FEW_ROWS:
        return
    found = estimate_cells(plan, segments, count_groups(family_of(plan), static))
    if found is not None and found.nbytes > most_mb << 20:
        raise error(
            "over_budget",
            detail=f"a full window has about {found.cells:,} cells per aggregate, {found.nbytes >> 20:,} MB at"
            f" {found.rate:,.0f} rows/s; slices_memory_mb is {most_mb:,}",
            hint="make the window shorter or group by less, use a rollup, or raise slices_memory_mb",
        )
