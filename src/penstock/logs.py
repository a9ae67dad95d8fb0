"""What the server prints: text for people or JSON lines for machines, each line with its request and cycle.

The request travels with the code that works for it, into threads too. The cycle is the last one that was committed
when the line was written, or the one that is being taken in.
"""

from __future__ import annotations

import logging
import re
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import orjson

from penstock.clock import format_timestamp
from penstock.errors import error

FORMATS = ("text", "json")
# What a client may call its own request; anything else could forge lines.
_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

_request: ContextVar[str | None] = ContextVar("penstock_request", default=None)
_cycle = 0


def check_logging(level: str, form: str) -> None:
    """Refuse a level or a form of lines that does not exist."""
    levels = logging.getLevelNamesMapping()
    if level.upper() not in levels:
        raise error("invalid_option", option="log_level", detail=f'"{level}" is not one of {", ".join(levels)}')
    if form not in FORMATS:
        raise error("invalid_option", option="log_format", detail=f'"{form}" is not one of {", ".join(FORMATS)}')


def request_id() -> str | None:
    return _request.get()


def note_cycle(cycle: int) -> None:
    """From now on lines belong to this cycle."""
    global _cycle
    _cycle = cycle


@contextmanager
def request_named(given: str | None) -> Iterator[str]:
    """Everything inside belongs to one request: the name its sender gave it, or a new one."""
    name = given if given is not None and _SANE_ID.fullmatch(given) else uuid.uuid4().hex[:16]
    token = _request.set(name)
    try:
        yield name
    finally:
        _request.reset(token)


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, object] = {
            "at": format_timestamp(int(record.created * 1_000_000)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request": request_id(),
            "cycle": _cycle or None,
        }
        facts.update(getattr(record, "facts", {}))
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return orjson.dumps(facts, default=str).decode()


class TextLines(logging.Formatter):
    """The same for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s [%(origin)s]: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.origin = " ".join(filter(None, [request_id(), f"cycle {_cycle}" if _cycle else None])) or "-"
        return super().format(record)


def set_up_logging(level: str, form: str) -> None:
    """Everything to stderr in one format, from whichever library it comes."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])
