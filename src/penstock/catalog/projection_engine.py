"""The database of the catalog's projection: how it is reached, and what to do about a damaged file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from sqlalchemy import URL, create_engine, event, make_url
from sqlalchemy.engine import Engine
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, OperationalError

from penstock.errors import error

_log = logging.getLogger("penstock.catalog")
# The catalog waits for its projection, so a server that does not answer must not make it wait for long.
_CONNECT_S = 5
_STATEMENT_MS = 15_000


def make_engine(url: str, file: Path | None) -> Engine:
    """An engine for the URL of a setting, or for a SQLite file. Nothing is connected yet."""
    try:
        found = make_url(url) if file is None else URL.create("sqlite", database=str(file))
        if found.drivername in ("postgresql", "postgres"):
            found = found.set(drivername="postgresql+psycopg")
        patient: dict[str, Any] = {}
        if found.get_backend_name() == "postgresql":
            patient = {
                "connect_timeout": _CONNECT_S,
                "tcp_user_timeout": _STATEMENT_MS,
                "options": f"-c statement_timeout={_STATEMENT_MS}",
            }
        arguments = {name: value for name, value in patient.items() if name not in found.query}
        engine = create_engine(found, connect_args=arguments, pool_pre_ping=bool(patient))
    except (ArgumentError, NoSuchModuleError, ImportError) as failure:
        raise error(
            "invalid_option",
            option="catalog_url",
            detail=str(failure).partition("\n")[0],
            hint="write postgresql+psycopg://user:password@host/database, or leave it empty for SQLite",
        ) from failure
    if found.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _set_up_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    # A write-ahead log: others read while we write, and a commit does not wait for the disk. A crash may cost
    # the newest commits, which come back from the journal.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def remove_damaged(engine: Engine, file: Path, failure: Exception) -> bool:
    """Whether the failure says that the SQLite file itself is bad; then it is gone, and can be made anew."""
    if not isinstance(failure, DatabaseError):
        return False
    # Operational failures (locked, full, read-only) pass; only a file of another make does not.
    if isinstance(failure, OperationalError) and "no such column" not in str(failure.orig):
        return False
    engine.dispose()
    _log.warning("the catalog's projection was damaged and is made anew: %s", failure.orig)
    for each in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        each.unlink(missing_ok=True)
    return True
