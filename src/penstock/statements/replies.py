"""Helpers for statements that read no readings: short replies, and names that match a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from penstock.views.results import Result


def done(tag: str, notices: tuple[str, ...] = ()) -> Result:
    return Result(pa.table({}), done=tag, notices=notices)


def rows_of(columns: tuple[str, ...], rows: Iterable[tuple[str | None, ...]]) -> Result:
    kept = list(rows)
    return Result(pa.table({c: pa.array([row[i] for row in kept], pa.string()) for i, c in enumerate(columns)}))


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that are LIKE a pattern: % is any text, _ any character, a backslash takes the next as it is."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    text = "".join({"%": ".*", "_": "."}.get(p, re.escape(p[-1])) for p in parts)
    like = re.compile(text, re.DOTALL)
    return sorted(name for name in names if like.fullmatch(name))
