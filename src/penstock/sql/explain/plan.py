"""Plans as people read them."""

from __future__ import annotations

from penstock.catalog.state import CatalogState
from penstock.expr.expression import Column, Expr, substituted, walk
from penstock.operators.registry import part_of
from penstock.sql.explain.aggregate import aggregate_lines, join_aggregate_lines, reader_lines, show_sorted
from penstock.sql.explain.join import join_lines
from penstock.sql.explain.notation import show, show_conditions, show_outputs, show_table, show_window
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
    ResampleCall,
    ResamplePlan,
    Resampling,
    SelectPlan,
    SparkPlan,
    TreePlan,
    resample_name,
)
from penstock.sql.planning.aggregate.on_demand import EVERY_ROW
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


def explain(plan: Plan, state: CatalogState) -> str:
    """How a plan runs, one fact a line."""
    match plan:
        case SelectPlan():
            lines = _select_lines(plan, state)
        case JoinPlan():
            lines = join_lines(plan, state)
        case AggregatePlan():
            lines = aggregate_lines(plan, state)
        case JoinAggregatePlan():
            lines = join_aggregate_lines(plan, state)
        case QueryAggregatePlan():
            lines = reader_lines(plan.top, plan.relations[0])
        case ResamplePlan():
            lines = _resample_lines(plan)
        case TreePlan():
            lines = _on_demand_lines(plan.on_demand)
        case SparkPlan():
            lines = _spark_lines(plan, state)
        case _:
            return "\n".join(part_of(plan.operator, "explain").lines(plan, state))
    functions = ["  functions: " + ", ".join(plan.functions)] if plan.functions else []
    text = [f"  text: {plan.sql}"] if type(plan) is SparkPlan and plan.sql else []
    return "\n".join([*lines, *functions, *text])


def _spark_lines(plan: SparkPlan, state: CatalogState) -> list[str]:
    lines = [f"Spark SQL: {plan.reason}"]
    if plan.core is not None:
        lines += [f"  {line}" for line in join_lines(plan.core, state)]
    for relation in plan.relations:
        named = f' "{relation.table}"' if relation.table else ""
        lines += _relation_lines(relation, f"{relation.name}: {_KINDS[relation.kind]}{named}")
    lines.append("  output: " + ", ".join(f"{name} {type_}" for name, type_ in plan.outputs))
    if plan.inlined:
        lines.append("  written out: " + ", ".join(f'query "{name}"' for name in plan.inlined))
    return lines


def _select_lines(plan: SelectPlan, state: CatalogState) -> list[str]:
    return [
        f"shared pass over the stream of {show_table(plan.table_id, state)}",
        f"  window: {show_window(plan.window)}",
        *(f"  {line}" for line in show_conditions(plan.static_predicate, plan.stream_predicate)),
        *_lasting_lines(plan.lasting),
        *([f"  keeps {format_duration(plan.keep_us)} for new subscribers: kept by the log"] if plan.keep_us else []),
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


def _relation_lines(relation: Relation, what: str) -> list[str]:
    lines = [f"  {what}"]
    if relation.window is not None:
        lines.append(f"    window: {show_window(relation.window)}")
    if relation.static_predicate is not None:
        lines.append(f"    initial scan: {show(relation.static_predicate)}")
    return lines


# -- RESAMPLE where the log answers it


def _resample_lines(plan: ResamplePlan) -> list[str]:
    asked = plan.resample
    times, values = plan.relations[asked.times], plan.relations[asked.values]
    lines = [f'values of "{values.table}" at the readings of "{times.table}", found in the log when asked']
    lines += _stream_lines("times", times, asked.times_predicate)
    lines += _stream_lines("values", values, asked.values_predicate)
    if asked.keys:
        equal = ", ".join(f'{show(ours)} = {show(theirs)} of "{values.table}"' for ours, theirs in asked.keys)
        lines.append(f"  same: {equal}")
    lines.append("  resampled: " + ", ".join(show_resample(call) for call in asked.calls))
    if asked.having is not None:
        lines.append(f"  of those: {show(_named(asked, asked.having))}")
    if asked.sorted is not None:
        lines.append("  sorted: " + show_sorted(asked.sorted, [o.name for o in asked.outputs]))
    outputs = [Output(o.name, o.type, _named(asked, o.expr)) for o in asked.outputs]
    lines.append(f"  output: {show_outputs(outputs)}")
    return lines


def _stream_lines(role: str, relation: Relation, condition: Expr | None) -> list[str]:
    of_query = f'answers of query "{relation.table}", one cycle later'
    what = of_query if relation.kind == "query" else f'readings of "{relation.table}"'
    conditions = [] if condition is None else [f"    conditions: {show(condition)}"]
    return [*_relation_lines(relation, f"{role}: {what}"), *conditions]


def show_resample(call: ResampleCall) -> str:
    return f"RESAMPLE({show(call.value)}, {format_duration(call.us)}, {call.method.upper()})"


def _named(asked: Resampling, expr: Expr) -> Expr:
    """The expression with the calls as they were asked for."""
    calls: dict[str, Expr] = {resample_name(i): Column(show_resample(c), c.type) for i, c in enumerate(asked.calls)}
    own: dict[str, Expr] = {node.name: node for node in walk(expr) if isinstance(node, Column)}
    return substituted(expr, own | calls)
