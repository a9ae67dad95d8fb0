"""A column of an answer, and how it stands in the journal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penstock.expr import expression as expressions
from penstock.expr.expression import Column, Expr
from penstock.types import Type, parse_type


@dataclass(frozen=True, slots=True)
class Output:
    """One column of an answer."""

    name: str
    type: Type
    expr: Expr


def output_json(output: Output) -> list[Any]:
    return [output.name, str(output.type), expressions.to_json(output.expr)]


def outputs_of(data: list[list[Any]]) -> tuple[Output, ...]:
    outputs = tuple(Output(name, parse_type(type_), expressions.from_json(e)) for name, type_, e in data)
    # Equal constants may differ (0.0 and -0.0), plain columns do not.
    return _columns(outputs) if all(isinstance(o.expr, Column) for o in outputs) else outputs


@lru_cache(maxsize=256)
def _columns(outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """One for all that are equal: thousands of queries may show the same columns."""
    return outputs
