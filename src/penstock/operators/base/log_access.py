"""How answers open the log: from one listing of its files that all of them share, or from a new one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.model import Table
from penstock.catalog.rows import StaticRows
from penstock.operators.base.listings import Listings
from penstock.operators.base.log_reader import LogReader


@dataclass(frozen=True, slots=True)
class LogAccess:
    """The log's folder, and the listings of its files."""

    folder: Path
    listings: Listings

    def reader(self, table: Table, static: StaticRows, head: int) -> LogReader:
        """Reads the rows below `head` by the shared listing."""
        listings = self.listings
        return LogReader(self.folder, table, static, lambda: listings.segments(table.id, head), listings.files)

    def fresh(self, table: Table, static: StaticRows) -> LogReader:
        """Lists the files of the log again."""
        return LogReader(self.folder, table, static, lambda: self.listings.fresh(table.id))
