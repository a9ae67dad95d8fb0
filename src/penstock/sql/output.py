"""One column of an answer."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.operators.expr import Expr
from penstock.types import Type


@dataclass(frozen=True, slots=True)
class Output:
    """One column of an answer."""

    name: str
    type: Type
    expr: Expr
