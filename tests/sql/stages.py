"""What the golden scripts show of a statement: its tree, and every stage that it goes through."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from sqlglot import exp

from penstock.catalog.state import CatalogState
from penstock.sql.dialect import sql_of
from penstock.sql.explain.plan import explain
from penstock.sql.planning.planner import bind_query, plan_query
from penstock.sql.positions import Span
from penstock.sql.statements import Assignment, CreateQuery, Explain, Select, Statement, StatementOption
from penstock.types import Field, Type


def stages(statement: Statement, state: CatalogState, standing: bool = False, joins: bool = False) -> str:
    """Every stage of a statement: what was read, the bound tree and the plan."""
    lines = ["statement", tree(statement, depth=1)]
    select: Select | None = None
    if isinstance(statement, Select):
        select = statement
    elif isinstance(statement, CreateQuery):
        select, standing = statement.select, True
    elif isinstance(statement, Explain) and isinstance(statement.target, Select):
        select = statement.target
    if select is not None:
        bound = bind_query(select, state, standing)
        columns = ", ".join(f"{field.name} {field.type}" for field in bound.fields)
        lines += ["bound", f"  columns: {columns}", f"  tree: {sql_of(bound.query)}"]
        plan = plan_query(select, state, standing, joins=joins)
        lines += ["plan", *("  " + line for line in explain(plan, state).splitlines())]
    return "\n".join(lines)


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
    if isinstance(value, StatementOption | Assignment):
        return f"{head}{value.name} = {tree(value.value)}"
    lines = [head + type(value).__name__]
    for part in fields(value):
        item = getattr(value, part.name)
        if part.repr and item not in (None, False, ()):
            lines.append(tree(item, part.name, depth + 1))
    return "\n".join(lines)
