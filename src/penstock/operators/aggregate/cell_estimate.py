"""Estimate the cells of an aggregate's full window from the rate of its table: for EXPLAIN, and to refuse what cannot fit."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.catalog.rows import StaticRows
from penstock.errors import error
from penstock.expr.evaluate import evaluate, evaluate_static
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.aggregate.approximate.coarse_cells import cell_store
from penstock.operators.aggregate.family import FamilyStore
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.history import SliceRequest, read_rows
from penstock.operators.aggregate.partials.base import Ints
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
from penstock.operators.base.log_reader import LogReader
from penstock.sql.plan import AggregatePlan
from penstock.streams.log.segments import Segment, rows_within

CELL_BYTES, SLOT_BYTES = 8, 56
"""What tiles keep of each cell beside its state: its group and the number of its rows. And of each slot: its time and log positions, twice."""
GROUP_BYTES = 24
"""What a key takes, where it has at most 64 bits."""
FEW_ROWS = 100_000
"""Of fewer rows no full window is estimated: they may have come in a burst."""
LEAST_PART = 10
"""With a tenth of the window in cells, or more, these tell what the whole will take."""
SAMPLE_PIECES, PIECE_ROWS = 32, 1 << 11
"""A sample of the log is so many pieces of so many rows."""


@dataclass(frozen=True, slots=True)
class CellEstimate:
    """The cells of each partial of an aggregate by their width, and the bytes of all of them, for a full window."""

    rate: float
    levels: dict[int, int]
    nbytes: int

    @property
    def cells(self) -> int:
        return sum(self.levels.values())


class RowSample(NamedTuple):
    """Which share of a table's rows belongs to a family, and how many groups there may be."""

    share: float
    groups: int


@dataclass(frozen=True, slots=True)
class QueryRows:
    """What the log tells of the rows of a query. `share`: so much of its table's rows, 0 where that is not known."""

    segments: Sequence[Segment]
    share: float

    @classmethod
    def of(cls, plan: AggregatePlan, segments: Sequence[Segment], static: StaticRows) -> QueryRows:
        """By the sensors. How many readings pass a condition is known to those alone that read them."""
        if plan.stream_predicate is not None:
            return cls(segments, 0.0)
        passing = evaluate_static(plan.static_predicate, static.versions())
        return cls(segments, float(passing.mean()) if len(passing) else 0.0)

    @property
    def _known_us(self) -> int:
        return max((s.max_ts for s in self.segments), default=0) - min((s.min_ts for s in self.segments), default=0)

    def within(self, length_us: int) -> float:
        """The rows of a full window; where there are few yet, those that are there: they may have come in a burst."""
        rows, known_us = rows_within(self.segments, length_us), self._known_us
        grows = length_us / known_us if rows >= FEW_ROWS and 0 < known_us < length_us else 1.0
        return self.share * rows * grows

    @property
    def apart_us(self) -> float:
        """How far apart they are in time."""
        return self._known_us / max(1.0, self.share * sum(s.end - s.first for s in self.segments))


NO_ROWS = QueryRows((), 0.0)


def estimate_cells(
    plan: AggregatePlan, segments: Sequence[Segment], groups: int, share: float = 1.0, part_us: int | None = None
) -> CellEstimate | None:
    """None where it cannot be told: the window has no fixed length, or the log has no time yet.

    `share`: of the rows, those that count. `part_us`: the cells of so much of the window.
    """
    whole_us = window_us(plan)
    if whole_us is None or not segments:
        return None
    known_us = max(s.max_ts for s in segments) - min(s.min_ts for s in segments)
    if known_us <= 0:
        return None
    rate = share * rows_within(segments, whole_us) / min(whole_us, known_us)
    length_us = whole_us if part_us is None else min(part_us, whole_us)
    levels = level_cells(rate, length_us, groups, plan.panes, SLOT_ROWS)
    every = min((call.every_us for call in plan.aggregates if call.every_us), default=None)
    if every is not None:
        levels = {every: math.ceil(length_us / every * min(groups, rate * every))}
    elif sum(levels.values()) > MANY_CELLS:
        levels = level_cells(rate, length_us, groups, plan.panes, WIDE_ROWS)
    slots = sum(cells / max(1.0, min(groups, rate * width)) for width, cells in levels.items())
    each = [state_bytes(measure) + CELL_BYTES for measure in measures_of(plan)]
    nbytes = sum(each) * sum(levels.values()) + len(each) * SLOT_BYTES * slots
    nbytes += GROUP_BYTES * min(groups, rate * length_us)
    return CellEstimate(rate * SECOND_US, levels, int(nbytes))


def estimate_by_cells(plan: AggregatePlan, segments: Sequence[Segment], family: FamilyStore) -> CellEstimate | None:
    """The same by the cells that are kept already: sensors may be silent at night, or send at different rates.

    None where only these can tell, and they are of less than a tenth of the window.
    """
    groups, known = max(1, len(family.groups)), [family.measures[measure] for measure in measures_of(plan)]
    stores = [each.tiles for each in known if each.tiles is not None]
    full, length_us = estimate_cells(plan, segments, groups), window_us(plan)
    span_us = max((store.span_us for store in stores), default=0)
    if full is None or length_us is None or span_us < length_us // LEAST_PART:
        return full if has_numbers_only(plan) else None
    part = estimate_cells(plan, segments, groups, part_us=span_us)
    assert part is not None
    # The newest cells stay apart whatever the window is, and finer cells of slots are those of two slots.
    apart, apart_bytes = sum(store.apart for store in stores), sum(store.apart_bytes for store in stores)
    cells = (sum(map(len, stores)) - apart) / len(stores) / part.cells
    nbytes = family.groups.nbytes + sum(store.nbytes - store.refined_bytes for store in stores) - apart_bytes
    levels = {width: round(count * cells) for width, count in full.levels.items()}
    levels[min(levels)] += apart // len(stores)
    return CellEstimate(full.rate, levels, round(full.nbytes * nbytes / part.nbytes) + apart_bytes)


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
        rows = (
            0.99 * rate * wider
        )  # where it is near to a limit, as steady sensors are, the rows that are there are a little fewer
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
    """About what the state of a cell takes: counts equal the number of its rows mostly, and take nothing.

    Of values that are objects only the places count, so that no window is refused which might fit (`has_numbers_only`).
    """
    return 8 * sum(name != "count" for name in measure.make().fields())


def has_numbers_only(plan: AggregatePlan) -> bool:
    """Whether all cells of a plan take the same room. Texts, decimals and values that are kept one by one take what they need."""
    types = (dtype for measure in measures_of(plan) for dtype, _ in measure.make().fields().values())
    return all(dtype is not object for dtype in types)


def count_groups(family: Family, static: StaticRows) -> int:
    """How many groups there may be: those of the sensors, where keys are static; otherwise about as many as sensors."""
    if not family.keys:
        return 1
    versions = static.versions()
    if family.static_predicate is not None:
        versions = versions.filter(pa.array(evaluate_static(family.static_predicate, versions)))
    if not family.is_static or not versions.num_rows:
        return max(1, int(versions.num_rows))
    groups, _ = number_groups([evaluate(key, versions, versions.num_rows) for key in family.keys], versions.num_rows)
    return int(groups.max(initial=0)) + 1


def sample_rows(log_reader: LogReader, family: Family, rows: int, full_rows: float) -> RowSample:
    """Read some of the newest rows of the log, by workers where they are too many for an answer. `full_rows`: how many a full window has."""
    head = log_reader.segments()[-1].end
    first = max(log_reader.segments()[0].first, head - rows)
    starts = [*range(first, head, PIECE_ROWS)]
    if len(starts) > SAMPLE_PIECES:  # not evenly: sensors may take turns
        starts = random.Random(head).sample(starts, SAMPLE_PIECES)
    pieces = [(start, min(head, start + PIECE_ROWS)) for start in sorted(starts)]
    request, seen = SliceRequest(family, (), SECOND_US), sum(end - start for start, end in pieces)
    if log_reader.affords(seen):
        read = [read_rows(log_reader, request, piece) for piece in pieces]
    else:
        read = log_reader.run([log_reader.source.task(read_rows, request, piece) for piece in pieces])
    groups, found = Groups.by(family.keys), [np.empty(0, np.int64)]
    for part in chain.from_iterable(read):
        found.append(groups.number(part.keys, len(part.times))[part.groups])
    numbers = np.concatenate(found)
    share = len(numbers) / seen
    return RowSample(share, guess_groups(numbers, round(share * full_rows)))


def passing_share(plan: AggregatePlan, log_reader: LogReader) -> float:
    """Of the rows of its table, about how many are a query's, by a sample; 0 where there are few rows yet."""
    segments, length_us = log_reader.segments(), window_us(plan)
    rows = rows_within(segments, length_us) if length_us is not None else 0
    return sample_rows(log_reader, family_of(plan), rows, rows).share if rows >= FEW_ROWS else 0.0


def guess_groups(numbers: Ints, rows: int) -> int:
    """How many groups so many rows may have, by those of a sample (Chao's estimator): the more were seen only once, the more were not seen."""
    counts = np.unique(numbers, return_counts=True)[1]
    once, twice = (int(np.count_nonzero(counts == times)) for times in (1, 2))
    return max(1, min(rows, len(counts) + once * (once - 1) // (2 * (twice + 1))))


def check_cells_fit(plan: AggregatePlan, log_reader: LogReader, most_mb: int, taken: int) -> None:
    """Raise over_budget where the cells of a full window would take more of the memory for all than other queries leave."""
    if not all(isinstance(cell_store(measure.make(), measure.every_us), TileStore) for measure in measures_of(plan)):
        return
    segments, length_us, left = log_reader.segments(), window_us(plan), (most_mb << 20) - taken
    rows = rows_within(segments, length_us) if length_us is not None else 0
    if rows < FEW_ROWS:
        return
    family = family_of(plan)
    most = count_groups(family, log_reader.static) if family.is_static else FOREVER
    found = estimate_cells(plan, segments, most)
    if found is not None and length_us is not None and found.nbytes > left:
        # That was as many cells as there may be. The log tells more.
        seen = sample_rows(log_reader, family, rows, found.rate * length_us / SECOND_US)
        found = estimate_cells(plan, segments, min(most, seen.groups), seen.share)
    if found is not None and found.nbytes > left:
        raise error(
            "over_budget",
            detail=f"a full window has about {found.cells:,} cells per aggregate, {found.nbytes >> 20:,} MB at"
            f" {found.rate:,.0f} rows/s; other queries take {taken >> 20:,} MB of {most_mb:,} (slices_memory_mb)",
            hint="make the window shorter or group by less, use a rollup, or raise slices_memory_mb",
        )
