"""In which order the rows of an aggregation come, and how many of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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


def sorted_json(asked: Sorted) -> dict[str, Any]:
    order = [[item.output, item.descending, item.nulls_first] for item in asked.order]
    return {"order": order, "limit": asked.limit, "offset": asked.offset}


def sorted_of(data: dict[str, Any]) -> Sorted:
    return Sorted(tuple(Sorting(*item) for item in data["order"]), data["limit"], data["offset"])
