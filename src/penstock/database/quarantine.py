"""Queries that stop cycles are taken out of them, by an entry in the journal, until they are resumed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from penstock.catalog.catalog import Catalog
from penstock.cycle.culprits import find_poison
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import Offset
from penstock.settings import Settings

_log = logging.getLogger("penstock")


class Quarantine:
    """Decides which queries are taken out of the cycles: those that a cycle failed with, and those that a trial finds."""

    def __init__(self, catalog: Catalog, folder: DataFolder, settings: Settings) -> None:
        self._catalog = catalog
        self._folder = folder
        self._settings = settings

    def trace(self, start: Offset, stopping: threading.Event) -> bool:
        """Find what stops the cycle from an offset on and take it out; False where nothing was found."""
        found = find_poison(self._folder, self._settings, start, stopping)
        _log.warning(
            "looked into the cycle by %d tries: %d queries stop it; %s",
            found["tries"],
            len(found["queries"]),
            found["unexplained"] or "nothing else does",
        )
        return self.take(found["queries"], found["table"])

    def take(self, reasons: Mapping[int, str], table_id: int | None = None) -> bool:
        """Take queries, and a table's readings up to now, out of the cycles; False where nothing is left to take out."""
        taken = self._catalog.quarantine_queries(reasons, table_id)
        for query in taken:
            _log.warning('query "%s" was taken out of the cycles: %s', query.name, query.quarantined)
        return bool(taken) or table_id is not None
