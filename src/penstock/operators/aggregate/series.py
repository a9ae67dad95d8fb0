"""Series of aggregates: from lines by slot to one series per row of the answer, and what mining functions find in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.cancellation import check
from penstock.errors import error, expect
from penstock.expr.windows import FOREVER
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.base import Ints, Numbers, State
from penstock.operators.aggregate.partials.cell_sums import CombinedCells, merge_combined
from penstock.operators.aggregate.partials.samples import Samples
from penstock.operators.aggregate.shape import Measure, measure_of
from penstock.operators.mining.registry import FUNCTIONS, SET, SLOT_FUNCTIONS
from penstock.operators.mining.series import NOTHING, Columns, Series
from penstock.sql.plan import AggregateCall, AggregatePlan
from penstock.types import BOOLEAN, DOUBLE, TIMESTAMP, Type

_SERIES = "series"
Words: TypeAlias = tuple[Any, ...]
"""The symbols of an answer, or of a series; () where it has numbers."""


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """Where the window of an answer begins and ends (inclusive), and how many elements its series may have."""

    since_us: int = -FOREVER
    until_us: int = 0
    most_elements: int = 0


@dataclass(frozen=True, slots=True)
class LineKey:
    """Which lines of an answer a call is found in: those of its measure, of a series with the word of `slot`."""

    measure: Measure
    slot: str = ""  # "rows": each row by itself
    by: bool = False  # a line has a series per value of `by`

    @classmethod
    def of(cls, call: AggregateCall) -> LineKey:
        if not call.options:
            return cls(measure_of(call))
        return cls(measure_of(call), str(dict(call.options).get("slot", "rows")), FUNCTIONS[call.function].by)


def with_series(
    plan: AggregatePlan, whole: Mapping[Measure, CombinedCells], groups: Groups, span: AnswerSpan
) -> tuple[dict[LineKey, CombinedCells], Groups]:
    """The lines of an answer, the same for all calls, and their groups. Where a measure is kept by slots, a line has a series.

    A window cuts slots and no other cell, so a series may lack lines that other measures have. With `by` cells are of finer
    groups than lines.
    """
    room, found = span.most_elements, {}
    outer = Groups.by(plan.keys) if plan.by else groups

    def of_lines(cells: CombinedCells) -> CombinedCells:
        keys = groups.columns(cells.groups)[: len(plan.keys)]
        return replace(cells, groups=outer.number(keys, len(cells.groups)))

    for key in dict.fromkeys(map(LineKey.of, plan.aggregates)):
        measure, lines = key.measure, whole[key.measure]
        if plan.by and not key.by:
            lines = merge_combined([of_lines(lines)], measure.make())
        if measure.every_us:
            lines = _by_line(plan, measure, key.slot, lines, span)
            room -= sum(map(len, lines.state[_SERIES]))
        elif key.slot:
            room -= int(lines.state["size"].sum())
        found[key] = _together(of_lines(lines)) if key.by else lines
        if room < 0:
            detail = f"the series of this answer have more than {span.most_elements} elements (series_slots_max)"
            hint = "make the window shorter, the slots wider or the groups fewer, or raise series_slots_max"
            raise error("over_budget", detail=detail, hint=hint)
    return _aligned(found), outer


def _together(lines: CombinedCells) -> CombinedCells:
    """One line per (pane, group) with all its series, from a line per series."""
    series = lines.state[_SERIES] if _SERIES in lines.state else list(map(_readings, lines.state["values"]))
    by_line: dict[tuple[int, int], list[Series]] = {}
    for window, group, each in zip(lines.windows.tolist(), lines.groups.tolist(), series, strict=True):
        by_line.setdefault((window, group), []).append(each)
    gathered: Numbers = np.fromiter(map(tuple, by_line.values()), object, len(by_line))
    edges = np.array(list(by_line), np.int64).reshape(-1, 2)
    return CombinedCells(edges[:, 0], edges[:, 1], {_SERIES: gathered})


def _by_line(plan: AggregatePlan, measure: Measure, word: str, lines: CombinedCells, span: AnswerSpan) -> CombinedCells:
    """One line per (pane, group) from lines by slot."""
    every, panes = measure.every_us, plan.panes
    low = -(-span.since_us // every) * every
    high = (span.until_us + 1) // every * every - every
    whole = (lines.windows >= low) & (lines.windows <= high)
    slots, groups = lines.windows[whole], lines.groups[whole]
    values, words = _slot_values(measure, word, {name: column[whole] for name, column in lines.state.items()})
    empty, edges = 0.0 if word == "count" else np.nan, (low, high, every)
    if panes is None and len(slots):
        found = _side_by_side(slots, groups, values, edges, span.most_elements, empty)
        if found is not None:
            return _with_words(found, words)
    windows = np.zeros(len(slots), np.int64)
    if panes is not None:
        places, windows = panes.of(slots)
        slots, groups, values = slots[places], groups[places], values[places]
    order = np.lexsort((slots, groups, windows))
    slots, groups, values, windows = slots[order], groups[order], values[order], windows[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(windows) != 0) | (np.diff(groups) != 0)
    begins = np.flatnonzero(new)
    series: Numbers = np.full(len(begins), None, object)
    room = span.most_elements
    for line, (begin, end) in enumerate(pairwise([*begins.tolist(), len(order)])):
        if panes is not None:
            start = int(windows[begin])
            edges = max(low, start), min(high, start + panes.width - every), every
        series[line] = _series(slots[begin:end], values[begin:end], edges, room, empty)
        room -= len(series[line])
    return _with_words(CombinedCells(windows[begins], groups[begins], {_SERIES: series}), words)


def _side_by_side(
    slots: Ints, groups: Ints, values: Numbers, edges: tuple[int, int, int], room: int, empty: float
) -> CombinedCells | None:
    """One line per group where there are no panes; None: the series of all groups would take too much room at once."""
    low, high, every = edges
    known = np.zeros(int(groups.max()) + 1, np.bool_)
    known[groups] = True
    used, first = np.flatnonzero(known), int(slots.min())
    length = (high - first) // every + 1
    if len(used) * length > room:
        return None
    grid = np.full((len(used), length), np.nan)
    grid[(np.cumsum(known) - 1)[groups], (slots - first) // every] = values
    present = ~np.isnan(grid)
    begins = np.where(present.any(axis=1), present.argmax(axis=1), -1)
    grid[~present] = empty
    times = first + every * np.arange(length, dtype=np.int64)
    series: Numbers = np.full(len(used), NOTHING, object)
    for line, begin in enumerate(begins.tolist()):
        if begin >= 0:
            before = (first - low) // every + begin
            series[line] = Series(times[begin:], grid[line, begin:], before, every)
    return CombinedCells(np.zeros(len(used), np.int64), used, {_SERIES: series})


def _slot_values(measure: Measure, word: str, state: State) -> tuple[Numbers, Words]:
    """The value of each slot, NaN where it has no reading; of symbols its place in the words."""
    if measure.arguments[0].type != DOUBLE:
        return _slot_symbols(measure, word, state)
    found = measure.make().finish(SLOT_FUNCTIONS[word], state, DOUBLE)
    values: Numbers = found.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    values[~np.isfinite(values)] = np.nan  # also a sum beyond all numbers
    if word == "count":
        values[values == 0] = np.nan
    return values, ()


def _slot_symbols(measure: Measure, word: str, state: State) -> tuple[Numbers, Words]:
    type_ = measure.arguments[0].type
    if word == SET:
        sets = [None if part is None else tuple(sorted(part)) for part in state["values"]]
        if type_ == BOOLEAN:
            sets = [None if part is None else tuple(map(bool, part)) for part in sets]
        return _places(sets)
    return _places(measure.make().finish(SLOT_FUNCTIONS[word], state, type_).to_pylist())


def _with_words(lines: CombinedCells, words: Words) -> CombinedCells:
    """The same with series of symbols, if there are words."""
    series = lines.state[_SERIES]
    for line in range(len(series) if words else 0):
        series[line] = replace(series[line], words=words)
    return lines


def _places(symbols: list[Any]) -> tuple[Numbers, Words]:
    """Each symbol as a number, NaN for None, and the symbols in order."""
    words = tuple(sorted(set(symbols) - {None}))
    place = {word: float(at) for at, word in enumerate(words)}
    return np.array([place.get(symbol, np.nan) for symbol in symbols], np.float64), words


def _series(slots: Ints, values: Numbers, edges: tuple[int, int, int], room: int, empty: float) -> Series:
    """The slots from the first reading to the end of the window. `edges`: its first and last slot, and their width."""
    present = ~np.isnan(values)
    if not present.any():
        return NOTHING
    first, last, every = edges
    begin = int(slots[present][0])
    length = (last - begin) // every + 1
    if length > max(room, 0):
        length = max(room, 0) + 1  # the answer is refused, and needs no room for that
        return Series(np.zeros(length, np.int64), np.zeros(length), 0, every)
    dense = np.full(length, empty)
    dense[(slots[present] - begin) // every] = values[present]
    times = begin + every * np.arange(length, dtype=np.int64)
    return Series(times, dense, (begin - first) // every, every)


def _aligned(whole: Mapping[LineKey, CombinedCells]) -> dict[LineKey, CombinedCells]:
    """The same lines for all calls: one for each that any of them has."""
    windows = np.concatenate([lines.windows for lines in whole.values()])
    groups = np.concatenate([lines.groups for lines in whole.values()])
    order = np.lexsort((groups, windows))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(windows[order]) != 0) | (np.diff(groups[order]) != 0)
    at = np.empty(len(order), np.int64)
    at[order] = np.cumsum(new) - 1
    windows, groups = windows[order][new], groups[order][new]
    found, begin = {}, 0
    for key, lines in whole.items():
        own = at[begin : begin + len(lines.groups)]
        begin += len(own)
        if _SERIES in lines.state:
            state: State = {_SERIES: np.full(len(groups), None, object)}
        else:
            state = key.measure.make().empty(len(groups))
        for name, column in lines.state.items():
            state[name][own] = column
        found[key] = CombinedCells(windows, groups, state)
    return found


def find_all(call: AggregateCall, state: State, count: int) -> pa.Array:
    """What a mining function finds in each of `count` lines."""
    function, options = FUNCTIONS[call.function], dict(call.options)
    assert function.find is not None
    nothing: Any = () if function.by else NOTHING
    series: Sequence[Any]
    if function.takes == "points":
        series = expect(Samples, measure_of(call).make()).samples(state)
    elif _SERIES in state:
        series = [each or nothing for each in state[_SERIES]]
    elif call.every_us or function.by:
        series = [nothing] * count  # there are no lines
    else:
        series = [_readings(part) for part in state["values"]]
    found = []
    for each in series:
        check()  # one series may take long, and many of them longer
        found.append(function.find(each, options))
    return _as_arrow(found, call.type)


def _readings(part: Any) -> Series:
    """Readings one by one, by time and log position."""
    if part is None:
        return NOTHING
    if part.dtype == object:
        times, _, symbols = zip(*sorted(part.tolist()), strict=True)
        values, words = _places(list(symbols))
        return Series(np.array(times, np.int64), values, words=words)
    ordered = part[np.lexsort((part[:, 1], part[:, 0]))]
    return Series(ordered[:, 0].astype(np.int64), np.ascontiguousarray(ordered[:, 2]))


def _as_arrow(found: list[Columns], type_: Type) -> pa.Array:
    """Arrays of structs, or structs, which are NULL where nothing was found."""
    if not found:
        return pa.array([], type_.to_arrow())
    record = type_.element if type_.kind == "ARRAY" else type_
    assert record is not None
    columns = [
        _column(np.concatenate([columns[place] for columns in found]), field.type)
        for place, field in enumerate(record.fields)
    ]
    fields = [pa.field(field.name, field.type.to_arrow()) for field in record.fields]
    lengths = [len(columns[0]) for columns in found]
    records = pa.StructArray.from_arrays(columns, fields=fields)
    if type_.kind == "ARRAY":
        offsets = pa.array(np.cumsum([0, *lengths]), pa.int32())
        return pa.ListArray.from_arrays(offsets, records, type=type_.to_arrow())
    places = np.cumsum([0, *lengths])[:-1]
    return records.take(pa.array(places, mask=np.array(lengths) == 0))


def _column(values: Numbers, type_: Type) -> pa.Array:
    if type_ == DOUBLE:
        return pa.array(values, pa.float64(), mask=np.isnan(values))
    if type_ == TIMESTAMP:
        return pa.array(values.astype(np.int64)).cast(type_.to_arrow())
    if type_.kind == "ARRAY":
        return pa.array(values.tolist(), type_.to_arrow())
    return pa.array(values).cast(type_.to_arrow())
