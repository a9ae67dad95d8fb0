"""Bound SELECT with RESAMPLE -> Resampling, or NotCovered with the reason why it stays Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from sqlglot import exp

from penstock.catalog.model import TIME_COLUMN
from penstock.expr.expression import Call, Column, Expr, calls_user, substituted
from penstock.expr.windows import TimeWindow
from penstock.operators.resample.nearest import Method
from penstock.sql.binding.context import BoundQuery
from penstock.sql.bound_trees import output_column, sources_in
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import Resample
from penstock.sql.plan import Output, Relation, ResampleCall, Resampling, SelectPlan, plan_from_json, resample_name
from penstock.sql.planning.join.keys import EqualitySide, usable
from penstock.sql.planning.relations import all_of
from penstock.sql.planning.resample.rewrite import ResampleInputs, asked_of
from penstock.sql.planning.row_order import sorting_of
from penstock.sql.scope import BoundSource, SqlCatalog
from penstock.sql.values import external, type_of
from penstock.types import DOUBLE, TIMESTAMP


def resample_plan(bound: BoundQuery, state: SqlCatalog) -> Resampling:
    """The question as values found in the log of one stream, at the readings of another. Before it is written out for Spark.

    What is no question at all is not refused here but there.
    """
    query, contexts = bound.query, bound.collected.contexts
    if not isinstance(query, exp.Select) or len(contexts) > 1:
        raise NotCovered("RESAMPLE inside of another question runs as Spark SQL")
    if query.args.get("distinct"):
        raise NotCovered("RESAMPLE beside DISTINCT runs as Spark SQL")
    asked = asked_of(contexts[0])
    for source in (asked.times, asked.values):
        if not isinstance(source.window, TimeWindow):
            raise NotCovered("RESAMPLE over the newest rows runs as Spark SQL")
    taken = _Calls(asked.values)
    outputs = tuple(
        Output(field.name, field.type, taken.lower(item.this))
        for field, item in zip(bound.fields, query.expressions, strict=True)
    )
    having = all_of([taken.lower(condition) for condition in asked.having])
    alone, keys = _counted(asked)
    plan = Resampling(
        times=contexts[0].sources.index(asked.times),
        values=contexts[0].sources.index(asked.values),
        calls=tuple(taken.calls),
        outputs=outputs,
        times_predicate=all_of([lower(condition) for condition in asked.rest]),
        values_predicate=all_of(alone),
        keys=tuple(keys),
        having=having,
        sorted=sorting_of(bound),
    )
    plan = read_selections(plan, asked.times, asked.values, state)
    if any(calls_user(e) for e in _expressions(plan)):
        raise NotCovered("RESAMPLE beside a user's function runs as Spark SQL")
    return plan


def after_scans(plan: Resampling, relations: Sequence[Relation]) -> Resampling:
    """The same without the conditions that the initial scans of its streams decide."""
    return replace(
        plan,
        times_predicate=_without(plan.times_predicate, relations[plan.times].static_predicate),
        values_predicate=_without(plan.values_predicate, relations[plan.values].static_predicate),
    )


def _without(predicate: Expr | None, decided: Expr | None) -> Expr | None:
    known = _terms(decided)
    return all_of([term for term in _terms(predicate) if term not in known])


def _terms(predicate: Expr | None) -> list[Expr]:
    match predicate:
        case None:
            return []
        case Call("and", arguments):
            return list(arguments)
    return [predicate]


def _counted(asked: ResampleInputs) -> tuple[list[Expr], list[tuple[Expr, Expr]]]:
    """Which readings count: what they satisfy alone, and what they have in common with the one that gives the time."""
    alone: list[Expr] = []
    keys: list[tuple[Expr, Expr]] = []
    for condition in asked.counted:
        if sources_in(condition) == {asked.values}:
            alone.append(lower(condition))
        else:
            keys.append(_key(condition, asked))
    return alone, keys


def _key(condition: exp.Expr, asked: ResampleInputs) -> tuple[Expr, Expr]:
    if isinstance(condition, exp.EQ):
        sides = {}
        for side in (condition.this, condition.expression):
            owners = sources_in(side)
            if len(owners) == 1:
                sides[next(iter(owners))] = lower(side)
        if len(sides) == 2:
            ours, theirs = sides[asked.times], sides[asked.values]
            if usable((EqualitySide(0, ours), EqualitySide(1, theirs))) and ours.type == theirs.type:
                return ours, theirs
    raise NotCovered("RESAMPLE with a condition between both streams that is no equality runs as Spark SQL")


class _Calls:
    """The calls of RESAMPLE, each once, and expressions over them. Only the calls read `values`."""

    def __init__(self, values: BoundSource) -> None:
        self.calls: list[ResampleCall] = []
        self._values = values

    def lower(self, node: exp.Expr) -> Expr:
        return lower(node.copy().transform(self._replaced, copy=False))

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.meta.get("source") is self._values:
            raise NotCovered("a value outside of RESAMPLE is no question")
        if not isinstance(node, Resample):
            return node
        value = lower(node.this)
        if node.method != "previous" and value.type != DOUBLE:
            value = Call("cast", (value,), DOUBLE)
        call = ResampleCall(value, node.us, cast(Method, node.method), external(type_of(node)))
        if call not in self.calls:
            self.calls.append(call)
        name = resample_name(self.calls.index(call))
        return output_column(name, call.type)


def _expressions(plan: Resampling) -> list[Expr]:
    found = [o.expr for o in plan.outputs] + [c.value for c in plan.calls] + [e for pair in plan.keys for e in pair]
    return found + [e for e in (plan.times_predicate, plan.values_predicate, plan.having) if e is not None]


def read_selections(plan: Resampling, times: BoundSource, values: BoundSource, state: SqlCatalog) -> Resampling:
    """The plan in the columns of the tables, with the conditions of the queries that it reads beside its own."""
    read = _selection(times, state)
    if read is not None:
        columns = _columns(read) | {
            resample_name(i): Column(resample_name(i), c.type) for i, c in enumerate(plan.calls)
        }
        plan = replace(
            plan,
            outputs=tuple(replace(o, expr=substituted(o.expr, columns)) for o in plan.outputs),
            having=None if plan.having is None else substituted(plan.having, columns),
            times_predicate=_both(read, plan.times_predicate, columns),
            keys=tuple((substituted(ours, columns), theirs) for ours, theirs in plan.keys),
        )
    read = _selection(values, state)
    if read is not None:
        columns = _columns(read)
        plan = replace(
            plan,
            calls=tuple(replace(call, value=substituted(call.value, columns)) for call in plan.calls),
            values_predicate=_both(read, plan.values_predicate, columns),
            keys=tuple((ours, substituted(theirs, columns)) for ours, theirs in plan.keys),
        )
    return plan


def _selection(source: BoundSource, state: SqlCatalog) -> SelectPlan | None:
    """The selection that a source reads; None for a table."""
    if source.kind != "query":
        return None
    read = plan_from_json(state.queries[source.name].plan).selection
    if read is None:
        raise NotCovered("RESAMPLE of the results of a window join, or at their times, runs as Spark SQL")
    if any(output.expr.type != output.type for output in read.outputs):
        raise NotCovered("RESAMPLE of a column that another query converts runs as Spark SQL")
    return read


def _columns(read: SelectPlan) -> dict[str, Expr]:
    return {output.name: output.expr for output in read.outputs} | {TIME_COLUMN: Column(TIME_COLUMN, TIMESTAMP)}


def _both(read: SelectPlan, own: Expr | None, columns: dict[str, Expr]) -> Expr | None:
    mine = [] if own is None else [substituted(own, columns)]
    return all_of([*mine, *([] if read.stream_predicate is None else [read.stream_predicate])])
