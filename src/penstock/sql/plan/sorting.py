"""Which rows of an aggregation come, in which order, and how many of them."""

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
    """ORDER BY, LIMIT and OFFSET. Rows that are alike in the order come as they would without it: by window and key.

    `distinct`: before anything else each row once, where rows do not show all of their keys.
    """

    order: tuple[Sorting, ...] = ()
    limit: int | None = None
    offset: int = 0
    distinct: bool = False


def sorted_json(asked: Sorted) -> dict[str, Any]:
    order = [[item.output, item.descending, item.nulls_first] for item in asked.order]
    once = {"distinct": True} if asked.distinct else {}
    return {"order": order, "limit": asked.limit, "offset": asked.offset, **once}


def sorted_of(data: dict[str, Any]) -> Sorted:
    order = tuple(Sorting(*item) for item in data["order"])
    return Sorted(order, data["limit"], data["offset"], data.get("distinct", False))
