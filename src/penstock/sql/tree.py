"""What EXPLAIN and the golden scripts show of a statement."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from sqlglot import exp

from penstock.sql.dialect import sql_of
from penstock.sql.positions import Span
from penstock.sql.statement_parts import Assignment, Option
from penstock.types import Field, Type


def tree(value: Any, label: str = "", depth: int = 0) -> str:
    """A statement, bound form or plan as an indented tree, one fact a line."""
    pad = "  " * depth
    head = f"{pad}{label + ': ' if label else ''}"
    if isinstance(value, exp.Expr):
        return head + sql_of(value)
    if isinstance(value, Type | Span) or not is_dataclass(value) or isinstance(value, type):
        if isinstance(value, tuple | list) and any(is_dataclass(v) and not isinstance(v, Type) for v in value):
            return "\n".join([head.rstrip(), *(tree(item, depth=depth + 1) for item in value)])
        if isinstance(value, tuple | list):
            return head + "(" + ", ".join(tree(item) for item in value) + ")"
        return head + str(value)
    if isinstance(value, Field):
        return f"{head}{value.name} {value.type}" + (" NOT NULL" if value.required else "")
    if isinstance(value, Option | Assignment):
        return f"{head}{value.name} = {tree(value.value)}"
    lines = [head + type(value).__name__]
    for part in fields(value):
        item = getattr(value, part.name)
        if part.repr and item not in (None, False, ()):
            lines.append(tree(item, part.name, depth + 1))
    return "\n".join(lines)
