"""Questions about one stream: bound SELECT -> SelectPlan, and the selection that a question about another query reads."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from penstock.catalog.model import TIME_COLUMN
from penstock.catalog.state import CatalogState
from penstock.expr.expression import Column, Expr
from penstock.expr.windows import EVERYTHING
from penstock.sql.binding.context import BoundQuery
from penstock.sql.bound_trees import conjuncts
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import Hold
from penstock.sql.plan import Lasting, Output, SelectPlan, plan_from_json
from penstock.sql.planning.relations import by_decider, refuse_clauses
from penstock.sql.scope import BoundSource
from penstock.types import TIMESTAMP


def one_stream(bound: BoundQuery, queries: bool = False) -> tuple[exp.Select, BoundSource]:
    """The SELECT and its stream, or NotCovered with the reason. `queries`: the stream may be the answers of another query."""
    query, contexts = bound.query, bound.collected.contexts
    if isinstance(query, exp.SetOperation):
        raise NotCovered(f"{type(query).__name__.upper()} runs as Spark SQL")
    if not isinstance(query, exp.Select):
        raise NotCovered("a question in parentheses runs as Spark SQL")
    sources = contexts[0].sources
    if queries and len(contexts) == len(sources) == 1 and sources[0].kind == "query":
        return query, sources[0]
    if any(source.kind == "query" or (source.kind == "derived" and source.name) for source in sources):
        raise NotCovered("reading another query runs as Spark SQL")
    if any(source.kind == "derived" for source in sources) or len(contexts) > 1:
        raise NotCovered("a subquery runs as Spark SQL")
    if len(sources) != 1:
        raise NotCovered("a join runs as Spark SQL" if sources else "no stream is read")
    source = sources[0]
    if source.kind != "sensors" or source.table is None:
        raise NotCovered(f'"{source.name}" has no stream, so the question runs as Spark SQL')
    if not source.needs_stream:
        raise NotCovered("only static columns are asked for, so no sensor is opened and it runs as Spark SQL")
    return query, source


def predicates(query: exp.Select) -> tuple[Expr | None, Expr | None]:
    """What WHERE asks of sensors, and of their readings."""
    return by_decider([lower(condition) for condition in conjuncts(query.args.get("where"))])


def select_plan(bound: BoundQuery, shown: Callable[[exp.Expr], Expr] = lower) -> SelectPlan:
    """The question as one pass over one stream, or NotCovered with the reason. `shown` gives what items of the SELECT list mean."""
    query, source = one_stream(bound)
    assert source.table is not None
    refuse_clauses(bound.collected.contexts[0])
    outputs = tuple(
        Output(field.name, field.type, shown(item.this))
        for field, item in zip(bound.fields, query.expressions, strict=True)
    )
    asked = conjuncts(query.args.get("where"))
    held = [condition for condition in asked if isinstance(condition, Hold)]
    static, stream = by_decider([lower(condition) for condition in asked if not isinstance(condition, Hold)])
    if len(held) > 1:
        raise NotCovered("more than one condition that has to hold FOR some time runs as Spark SQL")
    # The shared pass meets what has to last, and what else is asked waits until it has lasted.
    lasting = Lasting(held[0].us, stream) if held else None
    plan = SelectPlan(
        table_id=source.table.id,
        outputs=outputs,
        window=source.window or EVERYTHING,
        static_predicate=static,
        stream_predicate=stream if lasting is None else lower(held[0].this),
        lasting=lasting,
    )
    if lasting is not None and plan.functions:
        raise NotCovered("a user's function beside FOR runs as Spark SQL")
    return plan


def read_selection(source: BoundSource, state: CatalogState, over_join: str) -> SelectPlan | None:
    """The selection that a source reads; None for a table. `over_join`: why the results of a join are not covered."""
    if source.kind != "query":
        return None
    read = plan_from_json(state.queries[source.name].plan).selection
    if read is None:
        raise NotCovered(over_join)
    return read


def read_columns(read: SelectPlan) -> dict[str, Expr]:
    """What the columns of a selection mean in those of its table."""
    return {output.name: output.expr for output in read.outputs} | {TIME_COLUMN: Column(TIME_COLUMN, TIMESTAMP)}
