"""Window functions of a plan: RANK() OVER (PARTITION BY .. ORDER BY ..) and its like, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.expr.expression import Expr
from penstock.types import Type


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One item of ORDER BY inside OVER."""

    expr: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A value per row from the rows of its partition in an order. Rows that are alike in the order stay as they stand.

    `arguments`: the value of LAG and LEAD, and what they give where there is no such row. `count`: how many rows away, or the buckets
    of NTILE.
    """

    function: str
    type: Type
    partition: tuple[Expr, ...]
    order: tuple[OrderKey, ...]
    arguments: tuple[Expr, ...] = ()
    count: int = 0


def window_name(place: int) -> str:
    return f"window.{place}"


def parts_of(calls: Sequence[WindowCall]) -> Iterator[Expr]:
    """All expressions that some calls need."""
    for call in calls:
        yield from (*call.partition, *(key.expr for key in call.order), *call.arguments)
