"""How answers open the log: from one listing of its files that all of them share, or from a new one."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from penstock.catalog.model import Table
from penstock.catalog.rows import StaticRows
from penstock.operators.base.log_reader import LogReader
from penstock.operators.base.open_files import OpenFiles
from penstock.operators.base.row_budget import RowBudget
from penstock.streams.log.segments import Segment, list_readable, list_segments

# Compaction replaces files; those that are gone are found again, but by another listing each.
GOOD_FOR_S = 1.0


class Listings:
    """File lists of all tables, one object per server. A reader notices files that retention or compaction removed since."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._known: dict[int, tuple[float, list[Segment]]] = {}
        self.files = OpenFiles()

    def segments(self, table_id: int, end: int) -> list[Segment]:
        """A cover of a table's rows, at least up to a position."""
        with self._lock:
            known = self._known.get(table_id)
        if known is not None and known[1] and known[1][-1].end >= end and time.monotonic() - known[0] < GOOD_FOR_S:
            return known[1]
        return self.fresh(table_id)

    def fresh(self, table_id: int) -> list[Segment]:
        listed = time.monotonic(), list_segments(self._log, table_id)
        with self._lock:
            self._known[table_id] = listed
        return listed[1]


class ReachIndex:
    """`streams.log.segments.first_reached` for many times at once."""

    def __init__(self, log: Path, table_id: int, floor: int) -> None:
        segments = list_readable(log, table_id)
        self._floor = floor
        self._highest = np.maximum.accumulate(np.array([s.max_ts for s in segments], np.int64))
        # What is missing right before a file may be of its time, too.
        known = [floor, *(s.end for s in segments)]
        self._from = [max(floor, min(k, s.first)) for k, s in zip(known, segments, strict=False)]
        self._from.append(max(floor, known[-1]))

    def first(self, low_us: int) -> int:
        """From which position on rows may be of a time or later."""
        return self._from[int(np.searchsorted(self._highest, low_us))]


@dataclass(frozen=True, slots=True)
class LogAccess:
    """The log's folder, the listings of its files, and what one answer may read of it.

    `journal`: workers need the definitions up to this position to read the same rows. `own_rows`: rows of the answer count
    as such; else all rows that are read count as those that are read to find it.
    """

    folder: Path
    listings: Listings
    budget: RowBudget
    journal: int
    own_rows: bool = True

    def for_input(self) -> LogAccess:
        """The same for an answer that another one is made of: its rows are not in the answer that a client gets."""
        return replace(self, own_rows=False)

    def reader(self, table: Table, static: StaticRows, head: int) -> LogReader:
        """Reads the rows below `head` by the shared listing."""
        listings = self.listings
        return LogReader(
            self.folder,
            table,
            static,
            lambda: listings.segments(table.id, head),
            listings.files,
            budget=self.budget,
            journal=self.journal,
            own_rows=self.own_rows,
        )

    def fresh(self, table: Table, static: StaticRows) -> LogReader:
        """Lists the files of the log again."""
        listing = self.listings
        return LogReader(
            self.folder,
            table,
            static,
            lambda: listing.fresh(table.id),
            budget=self.budget,
            journal=self.journal,
            own_rows=self.own_rows,
        )
