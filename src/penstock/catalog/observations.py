"""Since when each sensor is observed, and which ones have said that nothing comes of them any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
            spans = observed.get(sid)
            if spans is None:
                observed[sid] = [(at_us, None)]
            else:
                spans.append((at_us, None))

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
