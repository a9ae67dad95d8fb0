"""A SELECT that does more with the rows of a window join -> the JoinPlan below it, and a SELECT over the join's rows.

What stands on top is slices of the join's results (`aggregate.join_results`) or, where these do not cover it (ORDER BY without aggregates, window
functions, conditions that no kernel covers), Spark SQL. The join itself runs in the cycle, and its rows stand in FROM where the streams stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from sqlglot import exp

from penstock.sql.binding.context import BoundQuery, SelectContext
from penstock.sql.bound_trees import alias_of, conjunction, conjuncts, quoted, time_of
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import is_between_streams
from penstock.sql.plan import JoinPlan
from penstock.sql.planning.join.planner import plan_of_from
from penstock.sql.scope import BoundSource, SourceColumn
from penstock.sql.values import external, type_of

CORE = "_core"


def extract_join(
    bound: BoundQuery, whole: bool = False, check: Callable[[JoinPlan], None] = lambda plan: None
) -> JoinPlan:
    """Plan the question's window join and put its rows in its place. Raises NotCovered before it changes anything.

    `whole`: no condition is left on top. `check` raises NotCovered where the plan does not suffice.
    """
    around = _around(bound)
    conditions = conjuncts(around.select.args.get("where"))
    try:
        plan, rest = _plan(bound, around, conditions), []
    except NotCovered:
        covered = [_is_covered(c, bound) for c in conditions]
        rest = [c for c, inside in zip(conditions, covered, strict=True) if not inside]
        if not rest or whole:
            raise
        plan = _plan(bound, around, [c for c, inside in zip(conditions, covered, strict=True) if inside], rest)
        if not all(i.keys for i in plan.inputs) or not all(t.keys for t in plan.tables):
            # What is left on top may be all that links them: below it the join would keep every pair.
            raise
    _refuse_streams_beside(bound, around, rest)
    check(plan)
    _replace_from(bound, around, plan, rest)
    return plan


def _around(bound: BoundQuery) -> SelectContext:
    """The SELECT with the FROM and WHERE that make the join."""
    found = [c for c in bound.collected.contexts if c.graph is not None]
    if len(found) > 1:
        raise NotCovered("more than one window join runs as Spark SQL")
    around = found[0] if found[0].role != "exists" else found[0].parent
    if around is None or around.role not in ("top", "derived"):
        raise NotCovered("a window join inside a condition runs as Spark SQL")
    return around


def _refuse_streams_beside(bound: BoundQuery, around: SelectContext, rest: Sequence[exp.Expr]) -> None:
    """NOW is the smallest over all streams of a query, and the join knows only its own."""
    inside = [around, *_taken(bound, around, rest)]
    if any(c.own_streams for c in bound.collected.contexts if c not in inside):
        raise NotCovered("a stream beside a window join runs as Spark SQL")


def _taken(bound: BoundQuery, around: SelectContext, rest: Sequence[exp.Expr]) -> list[SelectContext]:
    """The subqueries of WHERE that the join decides."""
    left = _inside(bound, rest)
    return [c for c in _inside(bound, [around.select.args.get("where")]) if c not in left]


def _inside(bound: BoundQuery, parts: Iterable[exp.Expr | None]) -> list[SelectContext]:
    selects = {id(select) for part in parts if part is not None for select in part.find_all(exp.Select)}
    return [c for c in bound.collected.contexts if id(c.select) in selects]


def _is_covered(condition: exp.Expr, bound: BoundQuery) -> bool:
    """Whether the join may decide a condition: it says what the windows say, or kernels evaluate it."""
    within = {id(c.select) for c in bound.collected.contexts if c.graph is not None}
    if is_between_streams(condition) or any(id(select) in within for select in condition.find_all(exp.Select)):
        return True
    try:
        lower(condition)
    except NotCovered:
        return False
    return not any(source.nullable for column in condition.find_all(exp.Column) if (source := _source(column)))


def _plan(
    bound: BoundQuery, around: SelectContext, conditions: Sequence[exp.Expr], rest: Sequence[exp.Expr] = ()
) -> JoinPlan:
    """The join of FROM and these conditions, with the columns that everything else asks for."""
    select, where = around.select, around.select.args.get("where")
    asked = {_name(column): column for column in _asked_on_top(bound, around, rest)}
    first = time_of(around.sources[0])
    columns: dict[str, exp.Expr] = dict(asked) or {_name(first): first}
    try:
        _set_where(select, conditions)
        subqueries = _inside(bound, [select.args.get("where")])
        return plan_of_from(around, subqueries, [(n, external(type_of(c)), c) for n, c in columns.items()])
    finally:
        select.set("where", where)


def _asked_on_top(bound: BoundQuery, around: SelectContext, rest: Sequence[exp.Expr]) -> Iterator[exp.Column]:
    """The columns of the join's sources outside the join."""
    select = around.select
    own = [select.args.get("from_"), select.args.get("where"), *(select.args.get("joins") or [])]
    inside = {id(column) for part in own if part is not None for column in part.find_all(exp.Column)}
    for tree in (bound.query, *rest):
        for column in tree.find_all(exp.Column):
            if _source(column) in around.sources and (tree is not bound.query or id(column) not in inside):
                yield column


def _replace_from(bound: BoundQuery, around: SelectContext, plan: JoinPlan, rest: Sequence[exp.Expr]) -> None:
    """FROM reads the core's rows; WHERE keeps what the join does not decide."""
    collected, select = bound.collected, around.select
    taken = _taken(bound, around, rest)
    collected.contexts = [c for c in collected.contexts if c not in taken]
    columns = {id(column): column for column in _asked_on_top(bound, around, rest)}
    panes = around.scope.panes
    for edge in (panes.start, panes.end, panes.key) if panes is not None else ():
        columns |= {id(column): column for column in edge.find_all(exp.Column)}
    node = exp.Table(this=quoted(CORE))
    core = BoundSource(CORE, "core", tuple(SourceColumn(o.name, o.type) for o in plan.outputs), node)
    node.set("alias", alias_of(core))
    for column in columns.values():
        column.set("this", quoted(_name(column)))
        column.set("table", quoted(CORE))
        column.meta["source"] = core
    select.set("from_", exp.From(this=node))
    select.set("joins", None)
    _set_where(select, rest)
    around.scope.sources[:] = [core]
    around.graph = None


def _set_where(select: exp.Select, conditions: Sequence[exp.Expr]) -> None:
    select.set("where", exp.Where(this=conjunction(conditions)) if conditions else None)


def _name(column: exp.Expr) -> str:
    source = _source(column)
    assert source is not None
    return f"{source.alias}.{column.name}"


def _source(column: exp.Expr) -> BoundSource | None:
    found = column.meta.get("source")
    return found if isinstance(found, BoundSource) else None
