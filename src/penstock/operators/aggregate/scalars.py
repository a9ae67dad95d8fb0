"""Scalar subqueries: each is answered first, from slices of its own, and is then a constant in the query around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.expr.expression import Column, Expr, Literal, substituted, walk
from penstock.operators.base.table_answer import TableAnswer
from penstock.sql.plan import AggregatePlan, Output, scalar_name


def with_values(plan: AggregatePlan, subqueries: Sequence[TableAnswer]) -> AggregatePlan:
    """The plan with each subquery's value in place of its name. Not to be called under the lock: it may read the log."""
    if not subqueries:
        return plan
    values = {
        scalar_name(place): Literal(_value(held.answer()), scalar.plan.outputs[0].type)
        for place, (scalar, held) in enumerate(zip(plan.scalars, subqueries, strict=True))
    }
    having = None if plan.having is None else _known(plan.having, values)
    order = None if plan.sorted is None else replace(plan.sorted, hidden=_all_known(plan.sorted.hidden, values))
    return replace(plan, outputs=_all_known(plan.outputs, values), having=having, sorted=order)


def _value(answer: pa.Table) -> Any:
    """The one value of an answer of one column; NULL where HAVING left no row."""
    return answer.column(0)[0].as_py() if answer.num_rows else None


def _all_known(outputs: Sequence[Output], values: dict[str, Literal]) -> tuple[Output, ...]:
    return tuple(replace(output, expr=_known(output.expr, values)) for output in outputs)


def _known(expr: Expr, values: dict[str, Literal]) -> Expr:
    columns: dict[str, Expr] = {node.name: node for node in walk(expr) if isinstance(node, Column)}
    return substituted(expr, {**columns, **values})
