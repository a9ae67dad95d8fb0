"""Work that nobody waits for: retention moves its mark, and files below it go."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from penstock.streams.compaction import Compactor
from penstock.streams.retention import Retention

if TYPE_CHECKING:
    from penstock.queries.database import Database

_log = logging.getLogger("penstock")
INTERVAL_S = 10.0


class Housekeeper:
    """Runs compaction and retention in the background."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stopping = threading.Event()
        self._compactor = Compactor(database.log)
        self._retention = Retention(database.log)
        self._thread = threading.Thread(target=self._run, name="penstock-housekeeping", daemon=True)

    def start(self) -> None:
        self._compactor.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._compactor.stop()

    def _run(self) -> None:
        while not self._stopping.wait(INTERVAL_S):
            try:
                self.apply_retention()
            except Exception:
                _log.exception("while applying retention")

    def protected(self, table_id: int) -> int:
        """The first position that a cycle, a fill or an answer may still read."""
        with self._database.standing.locked() as store:
            if store.offset is None:
                return 0
            position = store.offset.data.get(table_id, 0)
            for query_id, (first, _) in store.offset.fill.items():
                answer = store.answers.get(query_id)
                if answer is not None and answer.plan.table_id == table_id:
                    position = min(position, first)
            return position

    def apply_retention(self) -> None:
        """Journal how far each table's readings are gone, then delete the files below."""
        catalog = self._database.catalog
        for table in list(catalog.state.tables.values()):
            if table.options.retention_us is None or table.stream is None:
                continue
            now_us = self._now(table.id, table.options.time)
            if now_us is None:
                continue
            floor = self._retention.position(table.id, now_us - table.options.retention_us)
            floor = min(floor, self.protected(table.id))
            if floor > catalog.state.retention(table.id):
                catalog.retain(table.id, floor)
        for table in list(catalog.state.tables.values()):
            committed = self._committed_floor(table.id)
            if committed:
                self._retention.delete_below(table.id, committed)

    def _now(self, table_id: int, time: str) -> int | None:
        with self._database.standing.locked() as store:
            table = store.state.tables_by_id.get(table_id)
            return store.now_of(table, None) if table is not None else None

    def _committed_floor(self, table_id: int) -> int:
        """Files go only when the mark itself has been committed."""
        with self._database.standing.locked() as store:
            return store.state.retention(table_id) if table_id in store.state.tables_by_id else 0
