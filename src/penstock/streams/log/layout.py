"""Names of the log's folders and files. A segment's name says what it holds, so a listing is an index.

    DATA/log/<table id>/<first>-<end>-<min ts>-<max ts>.arrow|parquet

`first` and `end` (exclusive) are log positions with 16 digits, so names sort by position and the head of a
table is the largest text in columns 17 to 32. Times are microseconds; one before 1970 is written with `m`
for minus, because `-` separates the parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Format = Literal["arrow", "parquet"]

LOG = "log"
TEMPORARY = "tmp"
SIDECARS = "streams"  # newest times and idempotency keys, one folder a table; the log is the truth
ASIDE = "log-"  # prefix of this package's half-written files under DATA/tmp

_NAME = re.compile(r"(\d{16})-(\d{16})-(m?\d+)-(m?\d+)\.(arrow|parquet)")


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of rows [first, end) of one table, in one immutable file, with times in [min_ts, max_ts]."""

    path: Path
    first: int
    end: int
    min_ts: int
    max_ts: int
    format: Format

    @property
    def rows(self) -> int:
        return self.end - self.first


def segment_name(first: int, end: int, min_ts: int, max_ts: int, format: Format) -> str:
    return f"{first:016d}-{end:016d}-{_spell(min_ts)}-{_spell(max_ts)}.{format}"


def parse_segment(path: Path) -> Segment | None:
    """The segment that a file's name describes; None where it is no segment."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    first, end, low, high, format = match.groups()
    return Segment(path, int(first), int(end), _read(low), _read(high), "arrow" if format == "arrow" else "parquet")


def _spell(ts: int) -> str:
    return str(ts) if ts >= 0 else f"m{-ts}"


def _read(text: str) -> int:
    return -int(text[1:]) if text[0] == "m" else int(text)
