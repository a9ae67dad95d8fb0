"""The log's files as of one moment: each table is listed once, however many units of a cycle read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from penstock.streams.log.segments import Segment, Slice, list_readable, slices


@dataclass(slots=True)
class Listing:
    """Exact files for ranges of positions."""

    log: Path
    _known: dict[int, list[Segment]] = field(default_factory=dict)

    def files(self, table_id: int, first: int, end: int) -> tuple[Slice, ...]:
        if first >= end:
            return ()
        if table_id not in self._known:
            self._known[table_id] = list_readable(self.log, table_id)
        return tuple(slices(self._known[table_id], first, end))
