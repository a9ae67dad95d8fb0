"""Plans as people read them."""

from __future__ import annotations

from penstock.expr.expression import Column, substituted
from penstock.operators.registry import part_of
from penstock.sql.explain.aggregate import aggregate_lines, join_aggregate_lines, reader_lines
from penstock.sql.explain.join import join_lines
from penstock.sql.explain.notation import show, show_conditions, show_outputs, show_table, show_window
from penstock.sql.explain.resample import resample_lines
from penstock.sql.plan import (
    Aggregate,
    AggregatePlan,
    JoinAggregatePlan,
    JoinPlan,
    Lasting,
    OnDemand,
    Output,
    Plan,
    QueryAggregatePlan,
    Relation,
    ResamplePlan,
    SelectPlan,
    SparkPlan,
    TreePlan,
)
from penstock.sql.planning.aggregate.on_demand import EVERY_ROW
from penstock.sql.scope import SqlCatalog
from penstock.types import format_duration

_KINDS = {
    "stream": "readings of",
    "static": "static rows of",
    "ordinary": "table",
    "system": "system table",
    "state": "state of query",
    "query": "answers of query",
    "core": "rows of the join",
}


def explain(plan: Plan, state: SqlCatalog) -> str:
    """How a plan runs, one fact a line."""
    if isinstance(plan, SelectPlan):
        return "\n".join([*_select_lines(plan, state), *_function_lines(plan)])
    if isinstance(plan, JoinPlan):
        return "\n".join([*join_lines(plan, state), *_function_lines(plan)])
    if isinstance(plan, AggregatePlan):
        return "\n".join(aggregate_lines(plan, state))
    if isinstance(plan, JoinAggregatePlan):
        return "\n".join([*join_aggregate_lines(plan, state), *_function_lines(plan)])
    if isinstance(plan, QueryAggregatePlan):
        return "\n".join(reader_lines(plan.top, plan.relations[0]))
    if isinstance(plan, ResamplePlan):
        return "\n".join(resample_lines(plan))
    if isinstance(plan, TreePlan):
        return "\n".join(_on_demand_lines(plan.on_demand))
    if not isinstance(plan, SparkPlan):
        return "\n".join(part_of(plan.operator, "explain").lines(plan, state))
    lines = [f"Spark SQL: {plan.reason}"]
    if plan.core is not None:
        lines += [f"  {line}" for line in join_lines(plan.core, state)]
    for relation in plan.relations:
        lines += _relation_lines(relation)
    lines.append("  output: " + ", ".join(f"{name} {type_}" for name, type_ in plan.outputs))
    if plan.inlined:
        lines.append("  written out: " + ", ".join(f'query "{name}"' for name in plan.inlined))
    lines += _function_lines(plan)
    lines += [f"  text: {plan.sql}"] if plan.sql else []
    return "\n".join(lines)


def _select_lines(plan: SelectPlan, state: SqlCatalog) -> list[str]:
    return [
        f"shared pass over the stream of {show_table(plan.table_id, state)}",
        f"  window: {show_window(plan.window)}",
        *(f"  {line}" for line in show_conditions(plan.static_predicate, plan.stream_predicate)),
        *_lasting_lines(plan.lasting),
        f"  output: {show_outputs(plan.outputs)}",
    ]


def _lasting_lines(lasting: Lasting | None) -> list[str]:
    if lasting is None:
        return []
    lines = [f"  true without a break, per sensor, for {format_duration(lasting.us)}: looked for when asked"]
    return lines if lasting.beside is None else [*lines, f"  of those: {show(lasting.beside)}"]


def _on_demand_lines(asked: OnDemand) -> list[str]:
    shown = {f"#{place}": Column(_aggregate(a), a.type) for place, a in enumerate(asked.aggregates)}
    outputs = [Output(o.name, o.type, substituted(o.expr, shown)) for o in asked.outputs]
    return [
        f'aggregates on demand over the answers of query "{asked.query}": a tree in time order, no Spark job',
        f"  window: {show_window(asked.window) if asked.window is not None else 'that of the query'}",
        f"  output: {show_outputs(outputs)}",
    ]


def _aggregate(aggregate: Aggregate) -> str:
    return f"{aggregate.function}({'*' if aggregate.argument == EVERY_ROW else show(aggregate.argument)})"


def _function_lines(plan: Plan) -> list[str]:
    functions = plan.functions
    return ["  functions: " + ", ".join(functions)] if functions else []


def _relation_lines(relation: Relation) -> list[str]:
    named = f' "{relation.table}"' if relation.table else ""
    lines = [f"  {relation.name}: {_KINDS[relation.kind]}{named}"]
    if relation.window is not None:
        lines.append(f"    window: {show_window(relation.window)}")
    if relation.static_predicate is not None:
        lines.append(f"    initial scan: {show(relation.static_predicate)}")
    return lines
