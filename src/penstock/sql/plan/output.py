"""Rows of an answer: their columns, in which order they come, and how many of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from penstock.expr.expression import Expr
from penstock.types import Type


@dataclass(frozen=True, slots=True)
class Output:
    """One column of an answer."""

    name: str
    type: Type
    expr: Expr


def schema_of(outputs: Iterable[Output]) -> pa.Schema:
    return pa.schema([pa.field(output.name, output.type.to_arrow()) for output in outputs])


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
