"""One entry of the journal, as all readers of it see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One definition: its place in the total order, the log heads at that moment, and what it says."""

    pos: int
    kind: str
    heads: dict[int, int]
    at_us: int
    body: dict[str, Any]
