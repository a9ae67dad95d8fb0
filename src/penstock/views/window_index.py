"""Counts of what all windows need of a cycle, updated as queries come and go, so that no cycle visits all queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import itemgetter
from typing import TypeVar

from pyroaring import BitMap

from penstock.catalog.model import Table
from penstock.expr.windows import Bound, JoinWindows, TimeWindow, Window
from penstock.sql.plan import KernelPlan, stream_uses
from penstock.views.query_state import QueryState, ends
from penstock.views.stream_clock_index import NowKey, StreamClockIndex

# A window over a table's rows; START where the window depends on it.
Look = tuple[int, Window, int | None]
_Told = tuple[tuple[NowKey, ...], tuple[Look, ...], tuple[tuple[int, int], ...]]
T = TypeVar("T")


class WindowIndex:
    """Distinct streams, windows and spans over all answers."""

    def __init__(self) -> None:
        self.nows = StreamClockIndex()
        self.looks: Counter[Look] = Counter()
        self.joins: set[int] = set()
        self.clocked: set[int] = set()  # beside joins, the queries with a NOW that several streams decide
        self.ending: set[int] = set()
        self._spans: dict[int, dict[int, BitMap]] = {}  # by table and span, whose it is
        # Tuples: one of each per query, and an empty list takes more than a tuple of one.
        self._told: dict[int, _Told] = {}

    def take(self, query_id: int, answer: QueryState | None, tables: dict[int, Table]) -> None:
        """A query came, changed, or (None) went."""
        if answer is None or not answer.plan.tables_read <= tables.keys():
            self._leave(query_id)
            return
        uses = stream_uses(answer.plan)
        windows = answer.window.by_input if isinstance(answer.window, JoinWindows) else (answer.window,)
        keys: list[NowKey] = []
        several = answer.plan.window_join is None and len(answer.plan.clocks) > 1
        if answer.plan.window_join is None and not several and tables[uses[0].table_id].options.time == "valid":
            keys.append((uses[0].table_id, uses[0].static_predicate))
        looks = [
            (use.table_id, window, answer.start_us if depends_on_start(window) else None)
            for use, window in zip(uses, windows, strict=True)
        ]
        spans = list(_spans(looks, answer.plan))
        asked = answer.plan.aggregation or answer.top
        if asked is not None:
            # Rows leave an aggregate's own window while the question's may stand still.
            own = sorted({us for us in asked.own_windows if us is not None})
            lasts = [TimeWindow(Bound("now", -us), Bound("now")) for us in own]
            looks += [(table_id, last, None) for table_id in sorted({u.table_id for u in uses}) for last in lasts]
        for inner in (scalar.plan for scalar in answer.scalars if not scalar.inherits):
            looks.append((inner.table_id, inner.window, answer.start_us if depends_on_start(inner.window) else None))
        for key in keys:
            self.nows.add(key)  # before it leaves: a stream that is read on keeps the NOWs of older cycles
        self._leave(query_id)
        self._told[query_id] = _shared((tuple(keys), tuple(looks), tuple(spans)))
        self.looks.update(looks)
        for table_id, span in spans:
            self._spans.setdefault(table_id, {}).setdefault(span, BitMap()).add(query_id)
        if answer.plan.window_join is not None:
            self.joins.add(query_id)
        if several:
            self.clocked.add(query_id)
        if ends(answer.window):
            self.ending.add(query_id)

    def _leave(self, query_id: int) -> None:
        keys, looks, spans = self._told.pop(query_id, ((), (), ()))
        for key in keys:
            self.nows.remove(key)
        _subtract(self.looks, looks)
        for table_id, span in spans:
            whose = self._spans[table_id].get(span)
            if whose is not None:
                whose.discard(query_id)
                if not whose:
                    del self._spans[table_id][span]
        self.joins.discard(query_id)
        self.clocked.discard(query_id)
        self.ending.discard(query_id)

    def spans(self, table_id: int) -> list[tuple[int, BitMap]]:
        """How far back from NOW sliding windows over a table reach, the farthest first, and the queries of each."""
        return sorted(self._spans.get(table_id, {}).items(), key=itemgetter(0), reverse=True)


@lru_cache(maxsize=1 << 14)
def _shared(told: _Told) -> _Told:
    """One for all that are equal: ten alarms of a sensor need the same."""
    return told


def depends_on_start(window: Window) -> bool:
    return isinstance(window, TimeWindow) and "start" in (window.begin.anchor, window.end.anchor)


def _spans(looks: list[Look], plan: KernelPlan) -> Iterator[tuple[int, int]]:
    if plan.aggregation is not None:
        return  # it needs no bit matrices
    for table_id, window, _ in looks:
        if isinstance(window, TimeWindow) and window.slides:
            yield table_id, plan.lookback_us - window.begin.offset_us


def _subtract(counter: Counter[T], gone: Iterable[T]) -> None:
    for each in gone:
        counter[each] -= 1
        if not counter[each]:
            del counter[each]
