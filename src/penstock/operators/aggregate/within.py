"""Keep approximate answers, and the bound of WITHIN n PERCENT: where buckets leave more doubt than it, rows are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.cache import Cache
from penstock.operators.aggregate.approximate.within import INTERVAL, Within, as_one, row_by_row
from penstock.operators.aggregate.history import InPeriods, SliceRequest, ranges_with, slice_log
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.partials.cell_sums import CellRange, CombinedCells
from penstock.operators.aggregate.partials.correlated import PREFIX, inner_of, picked
from penstock.operators.aggregate.shape import Measure, family_of, measure_of
from penstock.operators.aggregate.slicer import SlicedFamily
from penstock.operators.base.log_reader import LogReader
from penstock.sql.plan import AggregatePlan

_WIDTH_US = 86_400_000_000
_MANY = 1 << 16
MOST = 1000
_MOST_BYTES = 16 << 20
Key = tuple[int, int, str, int | None]
Whole = Mapping[Measure, CombinedCells]
Known = Callable[[SlicedFamily], Ints]
"""The numbers of the groups that were sliced."""


@dataclass(slots=True)
class WithinStats:
    """How WITHIN n PERCENT was kept: the number of answers, how many of them read the log, and the doubt of the newest."""

    answers: int = 0
    read: int = 0
    doubt: float = 0.0


class AnswerCache:
    """The newest answers by query, cycle, window and NOW. Called under the store's lock."""

    def __init__(self) -> None:
        self.kept: Cache[int, WithinStats] = Cache(most=MOST)
        self._answers: Cache[Key, pa.Table] = Cache(most=MOST, most_bytes=_MOST_BYTES)

    def get(self, key: Key) -> pa.Table | None:
        return self._answers.get(key)

    def keep(self, key: Key, answer: pa.Table) -> pa.Table:
        """The answer that counts: the first one."""
        known = self._answers.get(key)
        if known is not None:
            return known
        self._answers.put(key, answer, answer.nbytes)
        return answer


def loose_measures(plan: AggregatePlan, whole: Whole) -> list[Measure]:
    """The measures with buckets that do not keep the bound of some aggregate."""
    found: dict[Measure, None] = {}
    for call in plan.aggregates:
        measure = measure_of(call)
        partial = measure.make()
        if isinstance(partial, Within) and isinstance(call.parameter, tuple):
            state = whole[measure].state
            if partial.loose(call.function, state, call.parameter[0], call.type.kind == "BIGINT"):
                found[measure] = None
    return list(found)


def read_exactly(
    log_reader: LogReader, plan: AggregatePlan, measures: list[Measure], whole: Whole, look: CellRange, known: Known
) -> dict[Measure, CombinedCells]:
    """The same measures with the rows that the outer aggregate sees, and no others: the inner one is known exactly."""
    periods = ((look.low, look.high + 1),)
    kept = InPeriods(periods, look.low, look.high)
    positions = ranges_with(log_reader, (look.floor, look.head), periods)
    found = {}
    for measure in measures:
        partial, combined = measure.make(), whole[measure]
        assert isinstance(partial, Within)
        line_of = {group: line for line, group in enumerate(combined.groups.tolist())}
        bags = [np.empty(0, INTERVAL)] * len(line_of)
        rows = Measure(PREFIX, measure.arguments)
        for sliced in slice_log(log_reader, SliceRequest(family_of(plan), (rows,), _WIDTH_US, kept), positions):
            (cells,) = sliced.cells
            for group, data in zip(known(sliced)[cells.groups].tolist(), cells.state["pairs"], strict=True):
                line = line_of[group]
                if data is None or not combined.state["count"][line]:
                    continue
                pairs = np.frombuffer(data, partial.pair)
                inner = inner_of(partial.asked.inner, combined.state, line)
                pairs = pairs[picked(pairs["x"], inner, partial.asked.edges)]
                bag = np.concatenate([bags[line], row_by_row(pairs["x"], pairs["y"])])
                bags[line] = as_one(bag) if len(bag) > _MANY else bag
        state = {**combined.state, "pairs": np.full(len(bags), None, object), "bag": np.empty(len(bags), object)}
        state["bag"][:] = [as_one(bag).tobytes() for bag in bags]
        found[measure] = replace(combined, state=state)
    return found


def note_doubt(kept: Cache[int, WithinStats], query_id: int, plan: AggregatePlan, whole: Whole, read: bool) -> None:
    """Remember for EXPLAIN what an answer took and how far it can be from the truth."""
    doubts: list[float] = []
    for call in plan.aggregates:
        measure = measure_of(call)
        partial = measure.make()
        if isinstance(partial, Within):
            found = partial.brackets(call.function, whole[measure].state, call.type.kind == "BIGINT")
            open_ones = found.known & (found.lowers < found.uppers)
            least = np.minimum(np.abs(found.lowers), np.abs(found.uppers))[open_ones]
            doubts += [0.0, *(found.errors[open_ones] / least).tolist()]
    if not doubts:
        return
    facts = kept.get(query_id) or WithinStats()
    kept.put(query_id, facts)
    facts.answers, facts.read, facts.doubt = facts.answers + 1, facts.read + read, max(doubts)
