"""A bound question with windows between its streams -> JoinPlan.

Raises `NotCovered` with plain words for what the join step does not do; such a question runs as Spark SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from penstock.errors import error
from penstock.expr.expression import Call, Column, Expr, calls_user, with_columns
from penstock.expr.windows import TimeWindow
from penstock.operators.join.kernels.bounds import MOST_STREAMS, close
from penstock.sql.binding.context import BoundQuery, SelectContext, WindowGraph
from penstock.sql.bound_trees import conjuncts, sources_in
from penstock.sql.join_hints import refusal
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import is_between_streams, is_either_way
from penstock.sql.plan import JoinInput, JoinPlan, JoinTable, Output
from penstock.sql.planning.join.keys import Equality, EqualitySide, equal_classes, in_class, never_null, usable
from penstock.sql.planning.join.tables import (
    Asked,
    asked_tables,
    implied_equalities,
    join_table,
    join_tables,
    left_tables,
    qualified,
)
from penstock.sql.planning.relations import all_of, by_decider, refuse_clauses
from penstock.sql.scope import BoundSource
from penstock.types import BOOLEAN, Type

Missing = Literal["inner", "left", "full", "anti"]


def is_window_join(bound: BoundQuery) -> bool:
    return any(context.graph is not None for context in bound.collected.contexts)


def has_join_branches(bound: BoundQuery) -> bool:
    """Whether the question is one of several joins together: with BOTH WAYS, or a FULL JOIN within a window."""
    top = bound.collected.contexts[0]
    if top.graph is None or top.aggregated or not isinstance(bound.query, exp.Select):
        return False
    return bool(top.graph.ways) or all(stream.nullable for stream in top.graph.streams)


def join_branches(bound: BoundQuery) -> tuple[JoinPlan, ...]:
    """The joins of such a question, or NotCovered with the reason."""
    return (join_plan(bound, 0), join_plan(bound, 1))


def join_plan(bound: BoundQuery, branch: int | None = None) -> JoinPlan:
    """The question as one join step, or NotCovered with the reason. `branch`: one of several joins."""
    query, (top, *subqueries) = bound.query, bound.collected.contexts
    if isinstance(query, exp.SetOperation):
        raise NotCovered(f"{type(query).__name__.upper()} runs as Spark SQL")
    if not isinstance(query, exp.Select):
        raise NotCovered("a question in parentheses runs as Spark SQL")
    refuse_clauses(top)
    outputs = [(f.name, f.type, item.this) for f, item in zip(bound.fields, query.expressions, strict=True)]
    return plan_of_from(top, subqueries, outputs, branch)


def plan_of_from(
    top: SelectContext,
    subqueries: Sequence[SelectContext],
    columns: Sequence[tuple[str, Type, exp.Expr]],
    branch: int | None = None,
) -> JoinPlan:
    """FROM, WHERE and WINDOW of one SELECT as a join step that answers these columns. `subqueries` are WHERE's."""
    question = _question(top, subqueries)
    if branch is not None:
        question = _branch_of(question, branch)
    if question.missing == "full":
        raise NotCovered("what stands on a FULL JOIN within a window runs as Spark SQL")
    if any(upper is None for row in question.graph.bounds.upper for upper in row):
        raise NotCovered("a join of streams that only BEGIN .. END connects runs as Spark SQL")
    outputs = tuple(Output(name, type_, qualified(node)) for name, type_, node in columns)
    if question.missing != "inner" and any(calls_user(o.expr) for o in outputs):
        # The step computes functions for combinations; rows without a partner are known later, where no function runs.
        raise NotCovered("a function in the SELECT list of LEFT JOIN, FULL JOIN or NOT EXISTS runs as Spark SQL")
    inputs, conditions, tables = _split(question)
    if not question.scanned:
        inputs = [_unscanned(each) for each in inputs]
    plan = JoinPlan(
        inputs=tuple(inputs),
        bounds=question.graph.bounds.upper,
        conditions=tuple(conditions),
        outputs=outputs,
        algorithm=None if top.algorithm is None else top.algorithm.name,
        missing=question.missing,
        tables=tuple(tables),
    )
    _check_hint(plan, question.graph, top)
    return plan


# -- what is asked


@dataclass(slots=True)
class _Question:
    """The conditions by the rows that they concern: `own` rows of the first stream alone, `shared` whole combinations.

    `tables` are the ordinary ones of FROM; each in `asked` has conditions of its own, whether for LEFT JOIN or in a subquery.
    """

    graph: WindowGraph
    missing: Missing
    shared: list[exp.Expr]
    own: list[exp.Expr] = field(default_factory=list)
    tables: list[BoundSource] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    scanned: bool = True  # whether conditions on static columns choose the sensors


def _question(top: SelectContext, subqueries: Sequence[SelectContext]) -> _Question:
    where = _conditions(top.select.args.get("where"))
    if top.graph is not None:
        found = _of_from(top, subqueries, where)
    elif len(subqueries) == 1 and subqueries[0].role == "exists":
        found = _of_not_exists(top, subqueries[0], where)
    else:
        raise NotCovered("a subquery beside a window join runs as Spark SQL")
    for source in found.graph.streams:
        _refuse_source(source)
    if len(found.graph.streams) > MOST_STREAMS:
        raise NotCovered(f"a window join of more than {MOST_STREAMS} streams runs as Spark SQL")
    return found


def _of_from(top: SelectContext, inner: Sequence[SelectContext], where: list[exp.Expr]) -> _Question:
    for source in top.sources:
        _refuse_source(source)
    assert top.graph is not None
    tables = [source for source in top.sources if source.kind == "ordinary"]
    if not any(source.nullable for source in top.graph.streams):
        on, left = left_tables(top)
        shared, asked = asked_tables([*on, *where], inner, {source.alias for source in top.sources})
        return _Question(
            top.graph, "inner", shared, tables=[t for t in tables if not t.nullable], asked=[*left, *asked]
        )
    if tables or inner:
        name = f'"{tables[0].name}", which has no stream,' if tables else "a subquery"
        raise NotCovered(f"{name} beside an outer join of streams runs as Spark SQL")
    if all(stream.nullable for stream in top.graph.streams):
        if where:
            raise NotCovered("WHERE beside a FULL JOIN of streams runs as Spark SQL")
        return _Question(top.graph, "full", _on_conditions(top), scanned=False)
    if any(sources_in(condition) - {top.graph.streams[0]} for condition in where):
        raise NotCovered("a condition of WHERE on the right side of a LEFT JOIN runs as Spark SQL")
    return _Question(top.graph, "left", _on_conditions(top), where)


def _on_conditions(top: SelectContext) -> list[exp.Expr]:
    return [c for join in top.select.args.get("joins") or [] for c in _conditions(join.args.get("on"))]


def _branch_of(question: _Question, branch: int) -> _Question:
    """One direction of BOTH WAYS; or of FULL JOIN the LEFT JOIN, then the rows of the right side without a partner."""
    graph = question.graph
    if question.missing != "full":
        shared = [condition for condition in question.shared if not is_either_way(condition)]
        return replace(question, graph=WindowGraph(graph.streams, graph.ways[branch]), shared=shared)
    if branch == 0:
        return replace(question, missing="left")
    later, earlier = graph.bounds.upper[0][1], graph.bounds.upper[1][0]
    turned = close(2, [(0, 1, None if later is None else -later, earlier)])
    return replace(question, graph=WindowGraph(graph.streams[::-1], turned), missing="anti")


def _of_not_exists(top: SelectContext, inner: SelectContext, where: list[exp.Expr]) -> _Question:
    for source in (*top.sources, *inner.sources):
        _refuse_source(source)
        if source.kind == "ordinary":
            raise NotCovered(f'EXISTS with "{source.name}", which has no stream, runs as Spark SQL')
    if inner.graph is None or top.graph is not None or len(top.sources) != 1 or len(inner.sources) != 1:
        raise NotCovered("EXISTS beside other joins runs as Spark SQL")
    refuse_clauses(inner)
    if top.sources[0].alias == inner.sources[0].alias:
        raise NotCovered("two streams of the same name run as Spark SQL")
    negated = [c for c in where if isinstance(c, exp.Not) and _is_exists(c.this.unnest(), inner)]
    if len(negated) != 1:
        raise NotCovered("EXISTS within a window runs as Spark SQL unless it is NOT EXISTS and AND connects it")
    own = [condition for condition in where if condition is not negated[0]]
    return _Question(inner.graph, "anti", _conditions(inner.select.args.get("where")), own)


def _is_exists(node: exp.Expr, inner: SelectContext) -> bool:
    return isinstance(node, exp.Exists) and node.this is inner.select


def _refuse_source(source: BoundSource) -> None:
    if source.kind == "query" or (source.kind == "derived" and source.name):
        raise NotCovered("a window join with another query runs as Spark SQL")
    if source.kind == "derived":
        raise NotCovered("a subquery beside a window join runs as Spark SQL")
    if source.kind in ("system", "state"):
        raise NotCovered(f'a window join with "{source.name}", which has no stream, runs as Spark SQL')
    if source.kind == "sensors" and not isinstance(source.window, TimeWindow):
        raise NotCovered("a join of the newest rows runs as Spark SQL")
    if "." in source.alias:
        raise NotCovered("a join of a stream with a dot in its name runs as Spark SQL")


def _conditions(clause: exp.Expr | None) -> list[exp.Expr]:
    """What AND connects, without what the windows already say."""
    return [condition for condition in conjuncts(clause) if not is_between_streams(condition)]


# -- which input decides which condition


def _split(question: _Question) -> tuple[list[JoinInput], list[Expr], list[JoinTable]]:
    """Conditions to the inputs that decide them alone, equalities to keys, and the rest to whole combinations.

    What names an ordinary table goes to the tables, which combinations meet when they are complete.
    """
    streams = list(question.graph.streams)
    among_streams = [c for c in question.shared if sources_in(c) <= set(streams)]
    with_tables = [c for c in question.shared if not sources_in(c) <= set(streams)]
    alone: list[list[Expr]] = [[] for _ in streams]
    alone[0] += [lower(condition) for condition in question.own]
    together: list[exp.Expr] = []
    for condition in (*among_streams, *implied_equalities(streams, with_tables)):
        places = [streams.index(source) for source in sources_in(condition)]
        # A row of the first stream that fails here has no partner; where that is an answer it has to stay.
        if len(streams) == 1:
            alone[0].append(lower(condition))
        elif len(places) == 1 and (question.missing == "inner" or places[0] > 0):
            alone[places[0]].append(lower(condition))
        else:
            together.append(condition)
    equalities = [_equalities(condition, streams) for condition in together]
    classes = equal_classes([each[0] for each in equalities if len(each) == 1], len(streams))
    if not classes:
        # Where there is another key, what may be NULL is better looked at afterwards: plain keys cost less.
        classes = equal_classes([e for each in equalities for e in each], len(streams))
    rest = [
        qualified(condition)
        for condition, each in zip(together, equalities, strict=True)
        if not each or not all(in_class(equality, classes) for equality in each)
    ]

    def qualify(column: Column) -> Expr:
        return replace(column, name=f"{streams[0].alias}.{column.name}")

    for one in classes:
        for place, members in enumerate(one):
            repeated = [Call("eq", (members[0], member), BOOLEAN) for member in members[1:]]
            if place == 0 and question.missing != "inner":
                rest += [with_columns(equal, qualify) for equal in repeated]
            else:
                alone[place] += repeated
    keys = [tuple(one[place][0] for one in classes) for place in range(len(streams))]
    inputs = [_input(s, alone[place], keys[place]) for place, s in enumerate(streams)]
    tables = join_tables(streams, question.tables, with_tables)
    known = {*streams, *question.tables}
    for source, conditions, use in question.asked:
        tables.append(join_table(source, conditions, known, use))
        known.add(source)
    return inputs, rest, tables


def _unscanned(given: JoinInput) -> JoinInput:
    """The same for all sensors: a condition on static columns is one on each reading."""
    both = all_of([given.static_predicate, given.stream_predicate])
    return replace(given, static_predicate=None, stream_predicate=both)


def _input(source: BoundSource, conditions: list[Expr], keys: tuple[Expr, ...]) -> JoinInput:
    assert source.table is not None and isinstance(source.window, TimeWindow)
    return JoinInput(source.alias, source.table.id, source.window, *by_decider(conditions), keys)


def _equalities(condition: exp.Expr, streams: list[BoundSource]) -> tuple[Equality, ...]:
    """The condition as an equality between two streams, or as two of them where NULL equals NULL; else nothing."""
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return ()
    owners = [sources_in(side) for side in (condition.this, condition.expression)]
    if any(len(owner) != 1 for owner in owners):
        return ()
    left, right = (
        EqualitySide(streams.index(next(iter(owner))), lower(side))
        for owner, side in zip(owners, (condition.this, condition.expression), strict=True)
    )
    if not usable((left, right)):
        return ()
    return never_null((left, right)) if isinstance(condition, exp.NullSafeEQ) else ((left, right),)


def _check_hint(plan: JoinPlan, graph: WindowGraph, top: SelectContext) -> None:
    if plan.algorithm is None or top.algorithm is None:
        return
    reason = refusal(plan.algorithm, graph.bounds, bool(plan.inputs[0].keys))
    if reason is not None:
        top.fail(top.algorithm, error("not_supported", feature=f"JOIN({plan.algorithm}) for this join", hint=reason))
