"""CREATE TABLE for points without a table: every tag is part of the key, every field of the stream."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.catalog.model import TIME_COLUMN
from penstock.streams.ingest.line_protocol import FieldValue, Point

_PLAIN = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_MOST = 100  # columns; a user with more writes the statement by hand


def suggested_table(measurement: str, points: Sequence[Point]) -> str:
    """A statement that takes these points as they are."""
    tags = list(dict.fromkeys(tag for point in points for tag in point.tags))[:_MOST]
    types: dict[str, str] = {}
    for point in points:
        for name, value in point.fields.items():
            if len(types) < _MOST or name in types:
                types[name] = _wider(types.get(name), _type(value))
    fields = [f"{_name(n)} {t}" for n, t in types.items() if n != TIME_COLUMN]
    stream = next(n for n in ("reading", "point", "measured", "value") if n not in tags)
    columns = [f"{_name(tag)} TEXT" for tag in tags] + [f"{stream} STREAM ({', '.join(fields)})"]
    key = [f"PRIMARY KEY ({', '.join(map(_name, tags))})"] if tags else []
    options = "time = 'valid', discover = true" if tags else "time = 'valid'"
    return f"CREATE TABLE {_name(measurement)} ({', '.join(columns + key)}) WITH ({options})"


def _name(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else '"' + text.replace('"', '""') + '"'


def _type(value: FieldValue) -> str:
    if isinstance(value, bool):
        return "BOOLEAN"
    return {int: "BIGINT", float: "DOUBLE"}.get(type(value), "TEXT")


def _wider(known: str | None, found: str) -> str:
    return found if known is None or (known, found) == ("BIGINT", "DOUBLE") else known
