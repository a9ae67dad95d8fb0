"""The audit log: each change with the caller that made it, one JSON object a line, in files that are rotated.

A line has no values and no SQL: passwords, tokens and options of connectors stand in statements. Readings that are
pushed are data, not changes, and are not recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path

import orjson

from penstock.clock import Clock, WallClock, format_timestamp
from penstock.logs import request_id
from penstock.security.caller import LOCAL, current_caller

FILE_MAX_BYTES = 16 << 20
FILES_KEPT = 10


class Audit:
    """Appends lines to `audit/audit.jsonl` of the data folder; opened at the first one. Thread-safe."""

    def __init__(self, data: Path, clock: Clock | None = None) -> None:
        self._path = data / "audit" / "audit.jsonl"
        self._clock = clock or WallClock()
        self._handler: RotatingFileHandler | None = None

    def note(self, action: str, names: Sequence[str] = (), outcome: str = "done") -> None:
        """One line per name, all of the same change; `outcome` is done or the condition that refused it."""
        caller = current_caller() or LOCAL
        facts = {
            "at": format_timestamp(self._clock.now_us()),
            "who": caller.name,
            "role": caller.role,
            "via": caller.via,
            "from": caller.address,
            "request": request_id(),
            "action": action,
        }
        about: Sequence[str | None] = names or [None]
        lines = [orjson.dumps({**facts, "name": name, "outcome": outcome}) for name in about]
        text = b"\n".join(lines).decode()
        handler = self._handler
        if handler is None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handler = self._handler = RotatingFileHandler(
                self._path, maxBytes=FILE_MAX_BYTES, backupCount=FILES_KEPT, encoding="utf-8", delay=True
            )
        # A handler reports its own failures on stderr and lets the change stand: it has happened.
        handler.handle(logging.LogRecord("penstock.audit", logging.INFO, "", 0, text, None, None))

    def close(self) -> None:
        if self._handler is not None:
            self._handler.close()
            self._handler = None
