"""Two histories of a table: where in the journal each piece of its log was written, and since when its sensors are observed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock.catalog.rows import Int64s


class HeadHistory:
    """How a table's log head moved from entry to entry: one step for each head that an entry saw first."""

    def __init__(self) -> None:
        # A table is empty when it comes, and was before: every earlier entry saw head 0.
        self._heads = np.zeros(16, np.int64)
        self._first = np.zeros(16, np.int64)
        self._count = 1

    def take(self, head: int, position: int) -> None:
        """The entry at `position` saw this head."""
        if head > self._heads[self._count - 1]:
            self._append(head, position)
        while head < self._heads[self._count - 1]:
            # A log that lost its end is written again from there: later entries stand before the new rows.
            self._count -= 1
            first = int(self._first[self._count])
            if self._heads[self._count - 1] < head:
                self._append(head, first)

    def _append(self, head: int, position: int) -> None:
        at = self._count
        if at == len(self._heads):
            self._heads, self._first = np.resize(self._heads, 2 * at), np.resize(self._first, 2 * at)
        self._heads[at], self._first[at] = head, position
        # Last: another thread reads it first, and finds a head and a position for each.
        self._count = at + 1

    def to_json(self) -> list[list[int]]:
        count = self._count
        return [self._heads[:count].tolist(), self._first[:count].tolist()]

    @classmethod
    def from_json(cls, data: list[list[int]]) -> HeadHistory:
        found = cls()
        found._heads, found._first = (np.array(part, np.int64) for part in data)
        found._count = len(found._heads)
        return found

    def steps(self, position: int) -> tuple[Int64s, Int64s]:
        """Heads, ascending, and for each the last entry up to `position` that saw no higher one."""
        count = self._count
        return self._heads[:count].copy(), np.append(self._first[1:count] - 1, position)


class LogHeads:
    """How far the logs of all tables had come, from entry to entry."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}  # at the last entry; never changed, only replaced
        self._histories: dict[int, HeadHistory] = {}
        self._steps: dict[int, tuple[int, tuple[Int64s, Int64s]]] = {}

    def to_json(self) -> dict[str, Any]:
        """Everything, for a snapshot of the catalog."""
        return {"last": self.last, "histories": {t: history.to_json() for t, history in self._histories.items()}}

    def restore(self, data: dict[str, Any]) -> None:
        self.last = {int(table): head for table, head in data["last"].items()}
        self._histories = {int(t): HeadHistory.from_json(history) for t, history in data["histories"].items()}
        self._steps = {}

    def begin(self, table_id: int) -> None:
        self._histories[table_id] = HeadHistory()

    def forget(self, table_id: int) -> None:
        del self._histories[table_id]
        self._steps.pop(table_id, None)

    def take(self, heads: dict[int, int], position: int) -> None:
        """What the entry at `position` saw."""
        if heads == self.last:
            return
        for table_id, history in self._histories.items():
            history.take(heads.get(table_id, 0), position)
        self.last = heads

    def steps(self, table_id: int, position: int) -> tuple[Int64s, Int64s]:
        """Heads of a table, ascending, and for each the last entry up to `position` that saw no higher one."""
        known = self._steps.get(table_id)
        if known is None or known[0] != position:
            known = (position, self._histories.get(table_id, HeadHistory()).steps(position))
            self._steps[table_id] = known
        return known[1]


def journal_of(positions: Int64s, heads: Int64s, entries: Int64s) -> Int64s:
    """The journal position at which each log position was written: the last entry with a head not beyond it."""
    index = np.searchsorted(heads, positions, side="right")
    found: Int64s = np.concatenate([[0], entries]).astype(np.int64)[index]
    return found


Observations = dict[int, list[tuple[int, int | None]]]


class ObservationHistory:
    """Sensors of all tables, by table id and sid. Sets that were handed out are never changed."""

    def __init__(self) -> None:
        self._spans: dict[int, Observations] = {}
        self._ended: dict[int, frozenset[int]] = {}

    def copy(self) -> ObservationHistory:
        """As it is now, for a reader that outlasts the next entry; spans only ever grow, and are shared."""
        still = ObservationHistory()
        still._spans, still._ended = self._spans, dict(self._ended)
        return still

    def to_json(self) -> dict[str, Any]:
        """Everything, for a snapshot of the catalog."""
        return {"spans": self._spans, "ended": {table: sorted(sids) for table, sids in self._ended.items()}}

    def restore(self, data: dict[str, Any]) -> None:
        self._spans = {
            int(table): {int(sid): [(begin, end) for begin, end in spans] for sid, spans in observed.items()}
            for table, observed in data["spans"].items()
        }
        self._ended = {int(table): frozenset(sids) for table, sids in data["ended"].items()}

    def spans(self, table_id: int) -> Observations:
        """Per sid: (opened at, closed at or None)."""
        return self._spans.get(table_id, {})

    def ended(self, table_id: int) -> frozenset[int]:
        return self._ended.get(table_id, frozenset())

    def open(self, table_id: int, sids: Iterable[int], at_us: int) -> None:
        observed = self._spans.setdefault(table_id, {})
        for sid in sids:
            observed.setdefault(sid, []).append((at_us, None))

    def close(self, table_id: int, sids: Iterable[int], at_us: int) -> None:
        observed = self._spans.get(table_id, {})
        for sid in sids:
            spans = observed.get(sid)
            if spans and spans[-1][1] is None:
                spans[-1] = (spans[-1][0], at_us)

    def end(self, table_id: int, sids: Iterable[int]) -> None:
        self._ended[table_id] = self.ended(table_id).union(sids)

    def begin_anew(self, table_id: int, sids: Iterable[int]) -> None:
        """Something may come of these again."""
        ended = self.ended(table_id)
        if not ended.isdisjoint(sids):
            self._ended[table_id] = ended.difference(sids)

    def all_begin_anew(self, table_id: int) -> None:
        self._ended.pop(table_id, None)

    def forget(self, table_id: int) -> None:
        self._spans.pop(table_id, None)
        self._ended.pop(table_id, None)
