"""In which order the rows of an aggregation come, and how many of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sorting:
    """One item of ORDER BY: which output, and which way."""

    output: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Sorted:
    """ORDER BY, LIMIT and OFFSET. Rows that are alike in the order come as they would without it: by window and key."""

    order: tuple[Sorting, ...] = ()
    limit: int | None = None
    offset: int = 0
