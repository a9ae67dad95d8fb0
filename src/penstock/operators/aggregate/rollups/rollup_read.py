"""Choose a rollup that can answer a question about readings that the log no longer has, and read its cells.

The window of the question is moved to what the cells can answer exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from penstock.catalog.rollup_records import RollupDefinition, RollupFile, RollupState
from penstock.catalog.state import CatalogState
from penstock.expr.evaluate import evaluate, evaluate_mask
from penstock.expr.expression import Column, Expr, columns_of, conjuncts
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.aggregate.approximate.amounts import ApproxCount
from penstock.operators.aggregate.partials.base import Ints, State
from penstock.operators.aggregate.partials.cells import Cells
from penstock.operators.aggregate.partials.registry import stands_for
from penstock.operators.aggregate.partials.slices import number_groups
from penstock.operators.aggregate.rollups.cells import TIMES, RollupCells, Shape, shape_of
from penstock.operators.aggregate.rollups.files import RollupFiles
from penstock.operators.aggregate.shape import Measure, measure_of
from penstock.operators.aggregate.slicer import SlicedFamily
from penstock.sql.explain.aggregate import show_call
from penstock.sql.plan import AggregateCall, AggregatePlan


@dataclass(frozen=True, slots=True)
class Match:
    """A rollup that can answer a question: the question's conditions and keys, as expressions over the rollup's keys."""

    rollup: RollupDefinition
    conditions: tuple[Expr, ...]
    keys: tuple[Expr, ...]


def find_match(plan: AggregatePlan, state: CatalogState, low: int = -FOREVER) -> Match | None:
    """The rollup with the finest cells of those that have everything since a time, else the one that has most."""
    if not isinstance(plan.window, TimeWindow) or plan.latch is not None or plan.reads is not None or plan.scalars:
        # Windows of rows, states without end, rows of another query, and what is compared with a subquery are of the log alone.
        return None
    found = [m for m in (match(rollup, plan) for rollup in state.rollups_of(plan.table_id)) if m is not None]
    return min(found, key=lambda m: _rank(m.rollup, state, low), default=None)


def _rank(rollup: RollupDefinition, state: CatalogState, low: int) -> tuple[int, int, int]:
    kept_us = kept_from_us(rollup, state.rolled_up(rollup.id))
    return max(low, kept_us if kept_us is not None else -FOREVER), rollup.tiers[0].every_us, rollup.id


def kept_from_us(rollup: RollupDefinition, rolled: RollupState | None) -> int | None:
    """Since when a rollup has every reading; None: since ever."""
    known = [us for us in (rollup.since_us, rolled.gone_us if rolled is not None else None) if us is not None]
    return max(known, default=None)


@lru_cache(1024)
def match(rollup: RollupDefinition, plan: AggregatePlan) -> Match | None:
    if why_not(rollup, plan) is not None:
        return None
    _, conditions = _conditions(rollup, plan)
    over_keys = tuple(_over_keys(condition, rollup) for condition in conditions)
    return Match(rollup, over_keys, tuple(_over_keys(key, rollup) for key in plan.keys))


def why_not(rollup: RollupDefinition, plan: AggregatePlan) -> str | None:
    """Why a rollup cannot answer a question; None where it can."""
    if rollup.table_id != plan.table_id:
        return "it is about another table"
    shape = shape_of(rollup)
    missing_conditions, conditions = _conditions(rollup, plan)
    if missing_conditions:
        return "it has only some of the readings"
    if not all(_is_known(condition, rollup) for condition in conditions):
        return "it does not know what WHERE asks for: its keys do not say it"
    if not all(_is_known(key, rollup) for key in plan.keys):
        return "it has other groups"
    missing = [call for call in plan.aggregates if stand_in(measure_of(call), shape) is None]
    if missing:
        return f"it does not keep {show_call(missing[0])}" + _instead(missing[0])
    return None


def _conditions(rollup: RollupDefinition, plan: AggregatePlan) -> tuple[list[Expr], list[Expr]]:
    """What only the rollup asks of readings, and what only the question does."""
    family = shape_of(rollup).family
    kept = [*conjuncts(family.static_predicate), *conjuncts(family.stream_predicate)]
    asked = [*conjuncts(plan.static_predicate), *conjuncts(plan.stream_predicate)]
    return [c for c in kept if c not in asked], [c for c in asked if c not in kept]


def _instead(call: AggregateCall) -> str:
    """Of what needs all values one by one no rollup has enough."""
    if call.function.endswith("_distinct"):
        return ", and no rollup does, because that needs the values themselves; APPROX_DISTINCT can be kept"
    if call.function.startswith("percentile"):
        return ", and no rollup does, because that needs the values themselves; APPROX_PERCENTILE can be kept"
    return ""


def _is_known(expr: Expr, rollup: RollupDefinition) -> bool:
    """Whether each cell has one value of it: it is a key, or made of columns that are keys themselves."""
    keys = shape_of(rollup).family.keys
    return expr in keys or columns_of(expr) <= {key.name for key in keys if isinstance(key, Column)}


def _over_keys(expr: Expr, rollup: RollupDefinition) -> Expr:
    """The expression over a cell's keys: one that is a key becomes a column of its own."""
    keys = shape_of(rollup).family.keys
    if expr in keys and not isinstance(expr, Column):
        return Column(f"key.{keys.index(expr)}", expr.type)
    return expr


def stand_in(asked: Measure, shape: Shape) -> Measure | None:
    """The rollup's measure that can answer a requested one: the same, or another with the same information; None: neither."""
    if asked in shape.measures:
        return asked
    same = [kept for kept in shape.measures if kept.arguments == asked.arguments]
    counted = "count" if asked.partial.startswith(ApproxCount.name + " ") else None
    return next((kept for kept in same if kept.partial == counted or stands_for(kept.partial, asked.partial)), None)


def as_asked(state: State, kept: Measure, asked: Measure, latest: Ints) -> State:
    """A stand-in's cells as the question's own; `latest` is when the last reading of each was."""
    if kept.partial != "count" or asked.partial == "count":
        return state
    # Exact counts are approximate ones of which nothing is cut.
    return {**asked.make().empty(len(latest)), "newest": latest, "count": state["count"]}


@dataclass(frozen=True, slots=True)
class RollupUse:
    """Cells of one tier that became part of an answer: their width, and the half-open time range that they cover."""

    every_us: int
    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class RollupRange:
    """What a rollup adds to an answer over [low, high]: cells of readings below a log position, and of nothing else.

    The edges are those that were asked for, moved inwards to where no cell is cut.
    """

    low: int
    high: int
    position: int
    parts: list[SlicedFamily]
    used: tuple[RollupUse, ...]


@dataclass(frozen=True, slots=True)
class RollupSource:
    """A rollup as of a committed cycle, for one question."""

    match: Match
    rolled: RollupState
    files: RollupFiles

    @property
    def kept_from_us(self) -> int | None:
        """Since when it has every reading; None: since ever."""
        return kept_from_us(self.match.rollup, self.rolled)

    def reaches(self, low: int, high: int) -> bool:
        """Whether it may have readings of that time."""
        return any(file.last_us >= low and file.first_us <= high for file in self.rolled.files)

    def look(self, measures: tuple[Measure, ...], low: int, high: int, pane: int | None) -> RollupRange | None:
        """The rollup's part of a window; None where it has nothing of that time, and the log has everything."""
        kept = self._stand_ins(measures)
        read = [(f, self._read(f, kept)) for f in self.rolled.files if f.last_us >= low and f.first_us <= high]
        read = [(file, cells) for file, cells in read if len(cells)]
        if not read:
            return None
        newest = max(file.last_us for file in self.rolled.files)
        low, high = fitted(_edges(read), low, high, pane, newest)
        parts: list[SlicedFamily] = []
        used: dict[int, tuple[int, int]] = {}
        for file, cells in read:
            chosen = (cells.latest >= low) & (cells.earliest <= high)
            if chosen.any():
                mine = cells if chosen.all() else cells.take(chosen)
                parts.append(self._sliced(mine, file.every_us, measures, kept))
                begins, ends = int(mine.starts.min()), int(mine.starts.max()) + file.every_us
                known = used.get(file.every_us, (begins, ends))
                used[file.every_us] = (min(begins, known[0]), max(ends, known[1]))
        told = tuple(RollupUse(every, *used[every]) for every in sorted(used, reverse=True))
        return RollupRange(low, high, self.rolled.position, parts, told)

    def _stand_ins(self, measures: tuple[Measure, ...]) -> tuple[Measure, ...]:
        """What the rollup has for each of them; that it has all was found out when it was matched."""
        shape = shape_of(self.match.rollup)
        return tuple(stand_in(measure, shape) or measure for measure in measures)

    def _read(self, file: RollupFile, measures: tuple[Measure, ...]) -> RollupCells:
        """The cells of a file that the question is about."""
        rollup = self.match.rollup
        cells = self.files.read(rollup.id, file, shape_of(rollup), (TIMES, *measures))
        for condition in self.match.conditions:
            kept = evaluate_mask(condition, self._columns(cells), len(cells))
            if not kept.all():
                cells = cells.take(np.asarray(kept))
        return cells

    def _columns(self, cells: RollupCells) -> dict[str, pa.Array]:
        """The keys by the names that the question's expressions have for them."""
        columns: dict[str, pa.Array] = {}
        for place, (key, values) in enumerate(zip(shape_of(self.match.rollup).family.keys, cells.keys, strict=True)):
            columns[f"key.{place}"] = values
            if isinstance(key, Column):
                columns[key.name] = values
        return columns

    def _sliced(
        self, cells: RollupCells, every_us: int, measures: tuple[Measure, ...], kept: tuple[Measure, ...]
    ) -> SlicedFamily:
        """The cells by the question's own groups. A cell stands where its first reading is: inside its pane."""
        count, columns = len(cells), self._columns(cells)
        groups, keys = number_groups([evaluate(key, columns, count) for key in self.match.keys], count)
        nothing, widths = np.zeros(count, np.int64), np.full(count, every_us, np.int64)
        rows = cells.states[0]["count"]
        asked = zip(cells.states[1:], kept, measures, strict=True)
        states = [as_asked(state, mine, theirs, cells.latest) for state, mine, theirs in asked]
        found = [Cells(cells.earliest, widths, groups, nothing, nothing, rows, state) for state in states]
        return SlicedFamily(keys, found)


def find_source(plan: AggregatePlan, state: CatalogState, low: int, files: RollupFiles) -> RollupSource | None:
    """The rollup that serves a question about a time and later best."""
    found = find_match(plan, state, low)
    rolled = state.rolled_up(found.rollup.id) if found is not None else None
    return RollupSource(found, rolled, files) if found is not None and rolled is not None else None


@dataclass(frozen=True, slots=True)
class Edges:
    """Begin and end of many cells, and the times of their first and last readings."""

    starts: Ints
    ends: Ints
    earliest: Ints
    latest: Ints


def _edges(read: list[tuple[RollupFile, RollupCells]]) -> Edges:
    starts = np.concatenate([cells.starts for _, cells in read])
    ends = np.concatenate([cells.starts + file.every_us for file, cells in read])
    return Edges(
        starts,
        ends,
        np.concatenate([cells.earliest for _, cells in read]),
        np.concatenate([cells.latest for _, cells in read]),
    )


def fitted(cells: Edges, low: int, high: int, pane: int | None, newest: int) -> tuple[int, int]:
    """The widest [low, high] inside the one that was asked for that cuts no cell, and no cell straddles two panes.

    An edge moves to the edge of a cell that is in the way, but never past the newest reading that the rollup has: what is
    newer stands in the log.
    """
    while True:
        cut = (cells.earliest <= high) & (cells.latest > high) & (cells.latest >= low)
        if not cut.any():
            break
        high = int(cells.starts[cut].min()) - 1
    while True:
        seen = (cells.latest >= low) & (cells.earliest <= high)
        cut = seen & (cells.earliest < low)
        if pane is not None:
            cut |= seen & (np.floor_divide(cells.earliest, pane) != np.floor_divide(cells.latest, pane))
        if not cut.any():
            return low, high
        low = min(int(cells.ends[cut].max()), newest + 1)
