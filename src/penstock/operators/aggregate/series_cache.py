"""What the answers of series go on from: the series of the answer before, and what was found in them.

Cells know the log positions of their rows. So they say which slots have changed since an answer; only those are added up again. Where
none has, the answer is the same object, and a subscriber has nothing to compare.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.cache import Cache
from penstock.expr.windows import FOREVER
from penstock.operators.aggregate.family import FamilyStore, MeasureStore
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.cell_sums import CellRange, CombinedCells
from penstock.operators.aggregate.series import AnswerSpan, Found, SeriesBefore, series_bytes, slot_words
from penstock.operators.aggregate.shape import Measure, family_name, family_of, measures_of
from penstock.sql.plan import AggregatePlan

MOST_BYTES = 128 << 20
"""So many bytes of series are kept, and as many of answers and of what was found for them."""
_LINE_BYTES = 500


@dataclass(frozen=True, slots=True)
class SeenSlots:
    """The slots of one measure that an answer saw: which group numbers it used, which times, and which rows of the log."""

    groups: Groups
    low: int
    high: int
    head: int
    first: int  # the lowest log position of their rows


@dataclass(frozen=True, slots=True)
class SeriesAsked:
    """A plan that is to be answered. `window`: through which window, and from where on the log counts."""

    query_id: int
    plan: AggregatePlan
    window: Hashable
    span: AnswerSpan

    @property
    def key(self) -> Hashable:
        return self.query_id, self.window

    def lines_key(self, measure: Measure, words: list[str]) -> Hashable:
        return family_name(family_of(self.plan)), measure, tuple(words), self.window


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The answer of a plan, None where it depends on more than slots, and what was found for it."""

    query_id: int
    plan: AggregatePlan
    seen: Mapping[Measure, SeenSlots]
    answer: pa.Table | None
    found: Found
    nbytes: int


@dataclass(frozen=True, slots=True)
class KeptLines:
    """The series of all groups, as an answer saw them."""

    family: str
    measure: Measure
    seen: SeenSlots
    lines: CombinedCells
    nbytes: int


@dataclass(slots=True)
class SeriesLook:
    """What an answer may go on from: the same answer where no slot has changed, or series, and what was found in them."""

    groups: Groups | None = None
    answer: pa.Table | None = None
    before: dict[Measure, SeriesBefore] = field(default_factory=dict)
    found: Found = field(default_factory=Found)

    @property
    def since(self) -> dict[Measure, int]:
        """By measure, from which time on slots have to be added up."""
        return {measure: before.until_us for measure, before in self.before.items()}


class SeriesCache:
    """Series by family, measure and window, and answers by query. Called under the lock of the answers' owner."""

    def __init__(self) -> None:
        self._lines: Cache[Hashable, KeptLines] = Cache(most_bytes=MOST_BYTES)
        self._answers: Cache[Hashable, KeptAnswer] = Cache(most_bytes=MOST_BYTES)

    @property
    def nbytes(self) -> int:
        return self._lines.nbytes + self._answers.nbytes

    def clear(self) -> None:
        self._lines.clear()
        self._answers.clear()

    def memory_of(self, query_id: int, used: Mapping[tuple[str, Measure], MeasureStore]) -> int:
        """Bytes of a query's answers, and its share of the series that it uses."""
        own = sum(kept.nbytes for kept in self._answers.values() if kept.query_id == query_id)
        shares = [
            kept.nbytes // max(1, len(used[kept.family, kept.measure].users))
            for kept in self._lines.values()
            if (kept.family, kept.measure) in used
        ]
        return own + sum(shares)

    def look(self, family: FamilyStore, asked: SeriesAsked, look: CellRange) -> SeriesLook:
        """What an answer may go on from. All rows of the look have cells."""
        plan, kept, found = asked.plan, self._answers.get(asked.key), SeriesLook(family.groups)
        if kept is not None and kept.plan == plan:
            found.found = Found(dict(kept.found.by_call))
            if all(
                (seen.low, seen.high) == _times(measure, asked.span)
                and _changed(family, measure, seen, look) == FOREVER
                for measure, seen in kept.seen.items()
            ):
                found.answer = kept.answer
        for measure, words in slot_words(plan).items() if plan.panes is None else ():
            known = self._lines.get(asked.lines_key(measure, words))
            if known is not None:
                seen, (low, high) = known.seen, _times(measure, asked.span)
                changed = _changed(family, measure, seen, look) // measure.every_us * measure.every_us
                until = min(changed, seen.high + 1)
                if seen.low <= low < until and seen.high <= high:
                    slots = seen.low, seen.high + 1 - measure.every_us
                    found.before[measure] = SeriesBefore(known.lines, slots, until)
        return found

    def put(
        self,
        family: FamilyStore,
        asked: SeriesAsked,
        look: CellRange,
        whole: Mapping[Measure, CombinedCells],
        answer: pa.Table,
        found: Found,
    ) -> None:
        """Keep the series and the answer of a plan, unless there are newer ones."""
        plan, seen = asked.plan, {}
        for measure, words in slot_words(plan).items():
            known, (low, high), key = (
                family.measures.get(measure),
                _times(measure, asked.span),
                asked.lines_key(measure, words),
            )
            if known is None or known.tiles is None:
                return
            seen[measure] = SeenSlots(family.groups, low, high, look.head, known.tiles.changes(low, high, 0)[1])
            newer = self._lines.get(key)
            if plan.panes is None and (newer is None or newer.seen.head <= look.head):
                lines = whole[measure]
                columns = (column for column in lines.state.values() if column.dtype == object)
                nbytes = sum(sum(map(series_bytes, column)) for column in columns) + _LINE_BYTES * len(lines.groups)
                kept_lines = KeptLines(family_name(family.family), measure, seen[measure], lines, nbytes)
                self._lines.put(key, kept_lines, nbytes)
        before = self._answers.get(asked.key)
        if before is None or all(each.head <= look.head for each in before.seen.values()):
            kept_answer = answer if _is_of_slots_alone(plan) else None
            # What was found takes about as much as the answer made of it. SERIES finds no more than the series, which are kept anyway
            # where there are no panes.
            is_more = plan.panes is not None or any(call.function != "series" for call in found.by_call)
            copies = (kept_answer is not None) + is_more
            kept = KeptAnswer(asked.query_id, plan, seen, kept_answer, found, copies * answer.nbytes)
            self._answers.put(asked.key, kept, kept.nbytes)


def _is_of_slots_alone(plan: AggregatePlan) -> bool:
    """Whether an answer stays the same as long as its slots do."""
    return all(measure.every_us for measure in measures_of(plan)) and not plan.scalars and plan.picking is None


def _changed(family: FamilyStore, measure: Measure, seen: SeenSlots, look: CellRange) -> int:
    """From which time on slots that were seen once have other rows now; FOREVER: none has."""
    known = family.measures.get(measure)
    if known is None or known.tiles is None or known.older is not None or seen.groups is not family.groups:
        return -FOREVER
    if look.floor > seen.first:
        return -FOREVER
    changed = known.tiles.changes(seen.low, seen.high, min(seen.head, look.head))[0]
    # An older cycle has the same slots where nothing came for them since; otherwise it may lack groups that are known by now.
    return -FOREVER if look.head < seen.head and changed < FOREVER else changed


def _times(measure: Measure, span: AnswerSpan) -> tuple[int, int]:
    """The first and the last microsecond of whole slots."""
    low, high = span.slots(measure.every_us)
    return low, high + measure.every_us - 1
