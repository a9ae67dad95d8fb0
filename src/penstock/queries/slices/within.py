"""WITHIN n PERCENT is kept: where buckets leave more doubt than was asked for, the rows of the window are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from penstock.operators.slices.approximate.intervals import INTERVAL, as_one, row_by_row
from penstock.operators.slices.approximate.within import Within
from penstock.operators.slices.bands import picked
from penstock.operators.slices.combining import Combined, Look
from penstock.operators.slices.correlated import PAIR, PREFIX
from penstock.pipeline.slices.shape import Measure, family_of, measure_of
from penstock.queries.fetch import Fetcher
from penstock.queries.slices.reading import inside, slice_log
from penstock.queries.slices.said import MOST, Kept
from penstock.sql.plan import AggregatePlan

_WIDTH_US = 86_400_000_000
_MANY = 1 << 16
Whole = Mapping[Measure, Combined]


def loose_measures(plan: AggregatePlan, whole: Whole) -> list[Measure]:
    """The measures whose buckets do not keep what some aggregate of them promises."""
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
    fetcher: Fetcher, plan: AggregatePlan, measures: list[Measure], whole: Whole, look: Look, first: int
) -> dict[Measure, Combined]:
    """The same measures with the rows that the outer aggregate sees, and no others: the inner one is known exactly."""
    kept = inside(((look.low, look.high + 1),), look.low, look.high)
    found = {}
    for measure in measures:
        partial, combined = measure.make(), whole[measure]
        assert isinstance(partial, Within)
        inner = partial.inner(combined.state, 0)
        rows = Measure(PREFIX, measure.arguments)
        bag = np.empty(0, INTERVAL)
        for sliced in slice_log(fetcher, family_of(plan), [rows], first, look.head, _WIDTH_US, kept):
            for data in sliced.cells[0].state["pairs"]:
                pairs = np.frombuffer(data or b"", PAIR)
                pairs = pairs[picked(pairs["x"], inner, partial.asked.edges)]
                bag = np.concatenate([bag, row_by_row(pairs["x"], pairs["y"])])
                bag = as_one(bag) if len(bag) > _MANY else bag
        state = {
            **combined.state,
            "pairs": np.array([None], object),
            "bag": np.array([as_one(bag).tobytes()], object),
        }
        found[measure] = replace(combined, state=state)
    return found


def note_doubt(kept: dict[int, Kept], query_id: int, plan: AggregatePlan, whole: Whole, read: bool) -> None:
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
    facts = kept.setdefault(query_id, Kept())
    if len(kept) > MOST:
        del kept[next(iter(kept))]
    facts.answers, facts.read, facts.doubt = facts.answers + 1, facts.read + read, max(doubts)
