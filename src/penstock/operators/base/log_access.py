"""How answers open the log: from one listing of its files that all of them share, or from a new one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.model import Table
from penstock.catalog.rows import StaticRows
from penstock.operators.base.listings import Listings
from penstock.operators.base.log_reader import LogReader
from penstock.operators.base.row_budget import RowBudget


@dataclass(frozen=True, slots=True)
class LogAccess:
    """The log's folder, the listings of its files, and what one answer may read of it.

    `journal`: workers need the definitions up to this position to read the same rows.
    """

    folder: Path
    listings: Listings
    budget: RowBudget
    journal: int

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
        )

    def fresh(self, table: Table, static: StaticRows) -> LogReader:
        """Lists the files of the log again."""
        listing = self.listings
        return LogReader(
            self.folder, table, static, lambda: listing.fresh(table.id), budget=self.budget, journal=self.journal
        )
