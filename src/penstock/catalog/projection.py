"""The journal's projection into SQLite or PostgreSQL: for look-ups with any SQL tool, never for truth.

It follows the journal entry by entry. Behind, of another folder, ahead or damaged, it is made anew from the
state; while its database cannot be reached it stays behind and the catalog goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection, Engine

from penstock.catalog.folder_format import read_id
from penstock.catalog.journal import Entry
from penstock.catalog.projection_engine import make_engine, remove_damaged
from penstock.catalog.projection_tables import INVISIBLE, MARK, METADATA, follow_entries, write_state
from penstock.catalog.state import CatalogState

_log = logging.getLogger("penstock.catalog")
# After a failure that took this long, callers are not made to wait for another one at once.
_SLOW_S = 1.0
_PAUSE_S = 30.0
_VERSION = 2


class Projection:
    """Definitions and live static rows as relational tables. Not thread-safe: the catalog's lock is around it."""

    def __init__(self, folder: Path, url: str) -> None:
        # With a number: what an older version wrote, secrets among it, is written anew.
        self._folder_id = f"{read_id(folder) if (folder / 'folder_id').exists() else ''} {_VERSION}"
        self._file = folder / "catalog.sqlite" if not url else None
        self._engine: Engine = make_engine(url, self._file)
        self._stored: tuple[int, int] | None = None  # position and time in the mark; None: look before writing
        self._pending: tuple[int, int] | None = None  # the same, of entries that change nothing here
        self._ready = False
        self._not_before = 0.0

    def close(self) -> None:
        """Leave the mark where the journal is, so that the next start has nothing to do."""
        if self._stored is not None and self._pending is not None:
            try:
                with self._engine.begin() as connection:
                    self._move_mark(connection, self._pending)
            except Exception as failure:
                _log.warning("the catalog's projection is behind: %s", _first_line(failure))
        self._engine.dispose()

    def catch_up(self, state: CatalogState) -> None:
        """Make it stand for the state, from scratch where it does not already. Never fails: it may stay behind."""
        self._try(lambda: self._rebuild(state))

    def take(self, entries: Sequence[Entry], state: CatalogState) -> None:
        """Follow entries that the state has just taken in. Never fails: what it misses it gets with a later one."""
        here = (entries[-1].pos, entries[-1].at_us)
        if self._stored is not None and all(e.kind in INVISIBLE for e in entries):
            self._pending = here
            return
        self._try(lambda: self._follow(entries, state, here))

    def _try(self, work: Any) -> None:
        began = time.monotonic()
        if began < self._not_before:
            return
        try:
            work()
        except Exception as failure:
            self._stored = self._pending = None
            if time.monotonic() - began > _SLOW_S:
                self._not_before = time.monotonic() + _PAUSE_S
            _log.warning("the catalog's projection is behind: %s", _first_line(failure))

    # -- from scratch

    def _rebuild(self, state: CatalogState) -> None:
        here = (state.position, state.at_us)
        try:
            self._prepare()
            if self._read_mark() == here:
                self._stored, self._pending = here, None
                return
            self._write_all(state, here)
        except Exception as failure:
            if self._file is None or not remove_damaged(self._engine, self._file, failure):
                raise
            self._ready = False
            self._prepare()
            self._write_all(state, here)
        self._stored, self._pending = here, None

    def _prepare(self) -> None:
        if not self._ready:
            METADATA.create_all(self._engine)
            self._ready = True

    def _read_mark(self) -> tuple[int, int] | None:
        """How far it has come; None where it belongs to another folder or to none."""
        with self._engine.connect() as connection:
            found = connection.execute(select(MARK.c.folder_id, MARK.c.position, MARK.c.at_us)).first()
        return (found.position, found.at_us) if found is not None and found.folder_id == self._folder_id else None

    def _write_all(self, state: CatalogState, here: tuple[int, int]) -> None:
        with self._engine.begin() as connection:
            connection.execute(delete(MARK))
            write_state(connection, state)
            mark = {"id": 1, "folder_id": self._folder_id, "position": here[0], "at_us": here[1]}
            connection.execute(insert(MARK), [mark])

    # -- entry by entry

    def _follow(self, entries: Sequence[Entry], state: CatalogState, here: tuple[int, int]) -> None:
        if self._stored is None:
            self._rebuild(state)
            return
        with self._engine.begin() as connection:
            moved = self._move_mark(connection, here)
            if moved:
                follow_entries(connection, entries, state)
        if moved:
            self._stored, self._pending = here, None
        else:
            self._rebuild(state)

    def _move_mark(self, connection: Connection, here: tuple[int, int]) -> bool:
        """Whether nobody else has written here since we did; then the mark is ours to move."""
        assert self._stored is not None
        ours = (
            MARK.c.folder_id == self._folder_id,
            MARK.c.position == self._stored[0],
            MARK.c.at_us == self._stored[1],
        )
        moved = connection.execute(update(MARK).where(*ours).values(position=here[0], at_us=here[1]))
        return bool(moved.rowcount == 1)


def _first_line(failure: Exception) -> str:
    return str(failure).partition("\n")[0]
