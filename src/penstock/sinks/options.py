"""Options that kinds of sinks share, and how their texts are read. No message repeats a text that may be a secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from penstock.errors import error, suggest
from penstock.sensors.base import Option
from penstock.sensors.options import duration, flag, one_of, whole_number

_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}

CHANGES = Option(
    "changes", "false", "Send net changes with a column `op`, + or -, as SUBSCRIBE WITH CHANGES does.", flag
)
ROWS = Option(
    "rows",
    "entered",
    "entered: each row that enters the answer. final: each row once, when no later reading can change it.",
    one_of("entered", "final"),
)
TIMEOUT = Option("timeout", "10 SECONDS", "How long one attempt may take.", lambda text: seconds(text, 0.1, 60))
BATCH_ROWS = Option(
    "batch_rows", "10000", "Most rows in one message; a cycle with more is sent in parts.", whole_number(1)
)


def address(*schemes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not re.match(rf"(?:{'|'.join(schemes)})://[^\s]+\Z", text.strip()):
            raise ValueError("it must begin with " + " or ".join(f"{scheme}://" for scheme in schemes))
        return text.strip()

    return parse


def seconds(text: str, least: float, most: float) -> float:
    value = duration(text) / 1e6
    if not least <= value <= most:
        raise ValueError(f"{text} is not from {least:g} to {most:g} seconds")
    return value


def size(text: str) -> int:
    """Bytes of `64 MB`."""
    found = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]*)\s*", text)
    unit = _UNITS.get(found.group(2).upper()) if found else None
    if found is None or unit is None or int(found.group(1)) == 0:
        raise ValueError(f'"{text}" is not a size such as 64 MB')
    return int(found.group(1)) * unit


def names(text: str) -> tuple[str, ...]:
    """Names separated by commas, perhaps in parentheses."""
    inner = text.strip().removeprefix("(").removesuffix(")")
    return tuple(part.strip().strip('"') for part in inner.split(",") if part.strip())


def require_columns(option: str, wanted: Iterable[str], known: Sequence[str]) -> None:
    """Raise where an option names a column that the query does not have."""
    for name in wanted:
        if name not in known:
            hint = suggest(name, known) or "columns are " + ", ".join(known)
            raise error("invalid_option", option=option, detail=f'the query has no column "{name}"', hint=hint)


def required_text(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text.strip()
