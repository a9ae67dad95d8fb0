"""Series of aggregates: from lines by slot to one series per row of the answer, and what mining functions find in them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.cancellation import check
from penstock.errors import PenstockError, error, expect
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

_NEWEST = "newest"
"""Beside the series of a line, the newest slot with a row of it, whether that row has a value or not."""
_SERIES = "series"
_MOST_SHARED = 1 << 17
"""Series of at most so many elements share their times."""
Words: TypeAlias = tuple[Any, ...]
"""The symbols of an answer, or of a series; () where it has numbers."""


class Spent(NamedTuple):
    """What looking at some series took: how many there were, their elements, and processor time."""

    series: int
    elements: int
    seconds: float


@dataclass(slots=True)
class Found:
    """What was found by call and series: a series that is still the same one needs no look. And what the others took."""

    by_call: dict[AggregateCall, dict[Any, Columns]] = field(default_factory=dict)
    spent: dict[str, Spent] = field(default_factory=dict)  # by function


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """Where the window of an answer begins and ends (inclusive), and how many elements its series may have."""

    since_us: int = -FOREVER
    until_us: int = 0
    most_elements: int = 0

    def slots(self, every_us: int) -> tuple[int, int]:
        """When the first and the last whole slot begin."""
        return -(-self.since_us // every_us) * every_us, (self.until_us + 1) // every_us * every_us - every_us


@dataclass(frozen=True, slots=True)
class SeriesBefore:
    """The series of an earlier answer through the same window. Of slots before a time they are still right."""

    lines: CombinedCells
    slots: tuple[int, int]
    until_us: int


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
            lines = lines if _NEWEST in lines.state else slot_series(plan, measure, lines, span)
            lines = replace(lines, state={_SERIES: lines.state[_name(key.slot)]})
            room -= sum(map(len, lines.state[_SERIES]))
        elif key.slot:
            room -= int(lines.state["size"].sum())
        found[key] = _together(of_lines(lines)) if key.by else lines
        if room < 0:
            hint = "make the window shorter, the slots wider or the groups fewer, or raise series_slots_max"
            raise _too_many("the series of this answer have", span.most_elements, hint)
    return _aligned(found), outer


def _too_many(what: str, most: int, hint: str) -> PenstockError:
    return error("over_budget", detail=f"{what} more than {most} elements (series_slots_max)", hint=hint)


def _together(lines: CombinedCells) -> CombinedCells:
    """One line per (pane, group) with all its series, from a line per series."""
    series = lines.state[_SERIES] if _SERIES in lines.state else list(map(_readings, lines.state["values"]))
    by_line: dict[tuple[int, int], list[Series]] = {}
    for window, group, each in zip(lines.windows.tolist(), lines.groups.tolist(), series, strict=True):
        by_line.setdefault((window, group), []).append(each)
    gathered: Numbers = np.fromiter(map(tuple, by_line.values()), object, len(by_line))
    edges = np.array(list(by_line), np.int64).reshape(-1, 2)
    return CombinedCells(edges[:, 0], edges[:, 1], {_SERIES: gathered})


def goes_on(plan: AggregatePlan) -> bool:
    """Whether an answer may go on from the one before: places of symbols, and groups of `by`, are those of one answer."""
    calls = (call for call in plan.aggregates if call.every_us)
    return plan.has_series and not plan.by and all(call.arguments[0].type == DOUBLE for call in calls)


def slot_words(plan: AggregatePlan) -> dict[Measure, list[str]]:
    """The measures that functions of series use, and the words of `slot` that say which of its values they see."""
    found: dict[Measure, list[str]] = {}
    for call in plan.aggregates:
        if call.every_us:
            words, word = found.setdefault(measure_of(call), []), str(dict(call.options)["slot"])
            words += [] if word in words else [word]
    return found


def _name(word: str) -> str:
    return f"series {word}"


def slot_series(
    plan: AggregatePlan, measure: Measure, lines: CombinedCells, span: AnswerSpan, before: SeriesBefore | None = None
) -> CombinedCells:
    """One line per (pane, group) from lines by slot; with series `before` (then there are no panes) from those of later slots."""
    every, panes, edges = measure.every_us, plan.panes, span.slots(measure.every_us)
    if before is not None and before.slots == edges and before.until_us > edges[1]:
        return before.lines
    at = np.flatnonzero((lines.windows >= edges[0]) & (lines.windows <= edges[1]))
    windows = np.zeros(len(at), np.int64)
    if panes is not None:
        places, windows = panes.of(lines.windows[at])
        at = at[places]
    order = np.lexsort((lines.windows[at], lines.groups[at], windows))
    at, windows = at[order], windows[order]
    slots, groups = lines.windows[at], lines.groups[at]
    begins = np.flatnonzero((np.diff(windows, prepend=-FOREVER) != 0) | (np.diff(groups, prepend=-1) != 0))
    bounds = np.append(begins, len(at))
    windows, groups, newest = windows[begins], groups[begins], slots[bounds[1:] - 1]
    if before is not None:
        kept = before.lines.state[_NEWEST] >= edges[0]
        olds = before.lines.groups[kept]
        all_groups = np.union1d(olds, groups)
        windows, newest = np.zeros(len(all_groups), np.int64), _spread(all_groups, groups, newest, -FOREVER)
        newest = np.maximum(newest, _spread(all_groups, olds, before.lines.state[_NEWEST][kept], -FOREVER))
        first, end = (_spread(all_groups, groups, bound, 0) for bound in (bounds[:-1], bounds[1:]))
        groups = all_groups
    else:
        first, end = bounds[:-1], bounds[1:]
    state: State = {_NEWEST: newest}
    columns = {name: column[at] for name, column in lines.state.items()}
    for word in slot_words(plan)[measure]:
        (values, symbols), room = _slot_values(measure, word, columns), span.most_elements
        known = np.full(len(groups), NOTHING, object)
        if before is not None:
            known = _spread(groups, olds, before.lines.state[_name(word)][kept], NOTHING)
        series = np.full(len(groups), NOTHING, object)
        for line, (low, high, window) in enumerate(zip(first.tolist(), end.tolist(), windows.tolist(), strict=True)):
            own = slots[low:high], values[low:high]
            if before is not None:
                own = _after(known[line], before, own, word)
            inside = edges if panes is None else (max(edges[0], window), min(edges[1], window + panes.width - every))
            series[line] = _series(*own, (*inside, every), room, word)
            if symbols and len(series[line]):
                series[line] = replace(series[line], words=symbols)
            if before is not None and before.slots == edges and series[line].equals(known[line]):
                series[line] = known[line]
            room -= len(series[line])
        state[_name(word)] = series
    return CombinedCells(windows, groups, state)


def _spread(all_groups: Ints, groups: Ints, values: Numbers, otherwise: Any) -> Numbers:
    """Values of some groups as values of all of them."""
    found: Numbers = np.full(len(all_groups), otherwise, values.dtype)
    found[np.searchsorted(all_groups, groups)] = values
    return found


def _after(known: Series, before: SeriesBefore, new: tuple[Ints, Numbers], word: str) -> tuple[Ints, Numbers]:
    """Slots and values as they were known before a time, and new ones."""
    end = int(np.searchsorted(known.times, before.until_us))
    values = known.values[:end]
    if word == "count":
        values = np.where(values == 0, np.nan, values)
    return np.concatenate([known.times[:end], new[0]]), np.concatenate([values, new[1]])


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
        sets = state["values"].tolist()
        if type_ == BOOLEAN:
            sets = [None if part is None else tuple(map(bool, part)) for part in sets]
        return _places(sets)
    return _places(measure.make().finish(SLOT_FUNCTIONS[word], state, type_).to_pylist())


def _places(symbols: list[Any]) -> tuple[Numbers, Words]:
    """Each symbol as a number, NaN for None, and the symbols in order."""
    words = tuple(sorted(set(symbols) - {None}))
    place = {word: float(at) for at, word in enumerate(words)}
    return np.array([place.get(symbol, np.nan) for symbol in symbols], np.float64), words


def _series(slots: Ints, values: Numbers, edges: tuple[int, int, int], room: int, word: str) -> Series:
    """The slots from the first reading to the end of the window. `edges`: its first and last slot, and their width."""
    first, last, every = edges
    present = ~np.isnan(values) & (slots >= first)
    if not present.any():
        return NOTHING
    slots, values = slots[present], values[present]
    begin = int(slots[0])
    length = (last - begin) // every + 1
    if length > max(room, 0):
        length = max(room, 0) + 1  # the answer is refused, and needs no room for that
        return Series(np.zeros(length, np.int64), np.zeros(length), 0, every)
    dense = np.full(length, 0.0 if word == "count" else np.nan)
    dense[(slots - begin) // every] = values
    return Series(_times(last, every, length), dense, (begin - first) // every, every)


def series_bytes(series: Series) -> int:
    """What a series takes beside the times that others have, too."""
    return int(series.values.nbytes) * (1 if len(series) <= _MOST_SHARED else 2)


def _times(last: int, every: int, length: int) -> Ints:
    """When slots begin, up to the last one. Series of about one length share them: half of what they take."""
    if length > _MOST_SHARED:
        return last + every * np.arange(1 - length, 1, dtype=np.int64)
    return _shared_times(last, every, 1 << (length - 1).bit_length())[-length:]


@lru_cache(maxsize=16)
def _shared_times(last: int, every: int, length: int) -> Ints:
    return last + every * np.arange(1 - length, 1, dtype=np.int64)


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


def find_all(call: AggregateCall, state: State, count: int, most_elements: int, known: Found | None = None) -> pa.Array:
    """What a mining function finds in each of `count` lines, in all of them no more elements than that.

    `known`: what was found before, from now on what is found here.
    """
    function, options = FUNCTIONS[call.function], dict(call.options)
    assert function.find is not None
    nothing: Any = () if function.by else NOTHING
    series: list[Any]
    if function.takes == "points":
        series = [*expect(Samples, measure_of(call).make()).samples(state)]
    elif _SERIES in state:
        series = [each or nothing for each in state[_SERIES]]
    elif call.every_us or function.by:
        series = [nothing] * count  # there are no lines
    else:
        series = [_readings(part) for part in state["values"]]
    before = known.by_call.get(call, {}) if known is not None else {}
    found, began_s, looked, elements, room = [], time.thread_time(), 0, 0, most_elements
    for each in series:
        columns = before.get(each)
        if columns is None:
            check()  # one series may take long, and many of them longer
            columns = function.find(each, options)
            looked, elements = looked + 1, elements + (sum(map(len, each)) if function.by else len(each))
        room -= _size(columns)
        if room < 0:
            hint = "make the groups fewer, or what it returns of each, or raise series_slots_max"
            raise _too_many(f"the results of {call.function.upper()} in this answer have", most_elements, hint)
        found.append(columns)
    if known is not None and call.every_us:
        known.by_call[call] = dict(zip(series, found, strict=True))
    if known is not None and elements:
        known.spent[call.function] = Spent(looked, elements, time.thread_time() - began_s)
    return _as_arrow(found, call.type)


def _size(columns: Columns) -> int:
    """How many elements a result has, and those of arrays inside of it."""
    return len(columns[0]) + sum(sum(map(len, column)) for column in columns if column.dtype == object)


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
