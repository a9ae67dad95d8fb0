"""Which rows of an aggregation come, in which order, and how many of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.sql.plan.output import Output, output_json, outputs_of


@dataclass(frozen=True, slots=True)
class Sorting:
    """One item of ORDER BY: which output, those that are not shown behind the others, and which way."""

    output: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Sorted:
    """ORDER BY, LIMIT and OFFSET. Rows that are alike in the order come as they would without it: by window and key.

    `distinct`: before anything else each row once, where rows do not show all of their keys. `hidden`: what the order needs beside the
    outputs; it is not part of the answer.
    """

    order: tuple[Sorting, ...] = ()
    limit: int | None = None
    offset: int = 0
    distinct: bool = False
    hidden: tuple[Output, ...] = ()


def sorted_json(asked: Sorted) -> dict[str, Any]:
    order = [[item.output, item.descending, item.nulls_first] for item in asked.order]
    more: dict[str, Any] = {"distinct": True} if asked.distinct else {}
    if asked.hidden:
        more["hidden"] = [output_json(o) for o in asked.hidden]
    return {"order": order, "limit": asked.limit, "offset": asked.offset, **more}


def sorted_of(data: dict[str, Any]) -> Sorted:
    order = tuple(Sorting(*item) for item in data["order"])
    hidden = outputs_of(data.get("hidden", []))
    return Sorted(order, data["limit"], data["offset"], data.get("distinct", False), hidden)
