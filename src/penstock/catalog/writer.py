"""How a definition gets in: it is written to the journal, applied to the state and passed to listeners; one at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from penstock.catalog.journal import JournalWriter, remove_covered
from penstock.catalog.model import Entry, QueryDefinition, Table
from penstock.catalog.snapshot import list_snapshots, write_snapshot
from penstock.catalog.state import CatalogState, load_state, snapshot_of
from penstock.clock import Clock
from penstock.errors import PenstockError, error, suggest

_log = logging.getLogger("penstock.catalog")
SNAPSHOT_ENTRIES = 10_000  # so many entries after a snapshot the next one is written
# Version 0.1 kept a copy of the catalog there. Nothing writes it any more, so a reader would find old definitions.
_REMOVED_FILES = ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm")
Still = Callable[[], AbstractContextManager[dict[int, int]]]


class CatalogWriter:
    """What changes have in common: the lock, the journal and the state that it folds to."""

    def __init__(self, folder: Path, still: Still, clock: Clock) -> None:
        self._folder = folder
        self._still = still
        self._clock = clock
        self._lock = threading.RLock()
        self._writer = JournalWriter(folder)
        self.state: CatalogState = load_state(folder)
        self._covered = max(list_snapshots(folder), default=0)  # the entry of the newest snapshot
        self.listeners: list[Callable[[Entry], None]] = []
        for name in _REMOVED_FILES:
            (folder / name).unlink(missing_ok=True)
        self._cover_new()

    def close(self) -> None:
        with self._lock:
            self._cover_new()
            self._writer.close()

    def write_snapshot(self) -> None:
        """Cover all lines up to now, also where a snapshot did that already."""
        with self._lock:
            self._write_snapshot()

    def forget_before(self, needed: int) -> None:
        """Remove journal lines that snapshots cover and no state from position `needed` on depends on."""
        with self._lock:
            remove_covered(self._folder, needed)

    def _cover_new(self) -> None:
        """Write a snapshot where there are lines that none covers: after a kill, and before a stop."""
        if self._writer.position != self._covered:
            self._write_snapshot()

    def _write_snapshot(self) -> None:
        """Soft: without it the next start reads more lines, and damage among them is not covered."""
        try:
            write_snapshot(self._folder, snapshot_of(self.state, self._writer.chain))
            self._writer.rotate()
        except (OSError, PenstockError) as failure:
            _log.warning("the catalog's snapshot could not be written: %s", failure)
            return
        self._covered = self._writer.position

    def lose(self, count: int, versions: Mapping[int, int], above: Mapping[str, int]) -> None:
        """Take the numbers of so many lost entries, and of what they numbered: versions by table, next ids by kind."""
        body = {"versions": {str(t): n for t, n in versions.items()}, "above": dict(above)}
        with self._lock:
            self._write_many([("lost", body)] * count)

    def _write(self, kind: str, body: dict[str, Any]) -> None:
        self._write_many([(kind, body)])

    def _write_many(self, entries: Sequence[tuple[str, dict[str, Any]]]) -> None:
        if not entries:
            return
        with self._still() as heads:
            made = self._writer.append_many(entries, heads, self._clock.now_us())
            self.state.apply_many(made)
        if self._writer.position - self._covered >= SNAPSHOT_ENTRIES:
            self._write_snapshot()
        for entry in made:
            for listener in list(self.listeners):
                try:
                    listener(entry)
                except Exception:
                    # The definition stands; a listener that fails must not make it look as if it did not.
                    _log.exception("after journal entry %s", entry.pos)

    def _table(self, name: str) -> Table:
        found = self.state.tables.get(name)
        if found is None:
            raise self._missing("table", name, self.state.tables)
        return found

    def _query(self, name: str) -> QueryDefinition:
        found = self.state.queries.get(name)
        if found is None:
            raise self._missing("query", name, self.state.queries)
        return found

    def _missing(self, kind: str, name: str, known: Iterable[str]) -> PenstockError:
        return error(f"{kind}_not_found", **{kind: name}, hint=suggest(name, known))

    def _exists(self, kind: str, name: str, known: Mapping[str, object], tolerated: bool) -> bool:
        if name not in known:
            return False
        if tolerated:
            return True
        raise error("already_exists", kind=kind, name=name)
