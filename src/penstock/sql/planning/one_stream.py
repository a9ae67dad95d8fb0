"""Questions about one stream and nothing else: what the shared pass covers."""

from __future__ import annotations

from sqlglot import exp

from penstock.expr.expression import Expr, is_static
from penstock.sql.binding.context import BoundQuery
from penstock.sql.bound_trees import conjuncts
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.planning.relations import all_of
from penstock.sql.scope import BoundSource


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
    conditions = [lower(condition) for condition in conjuncts(query.args.get("where"))]
    static = all_of([c for c in conditions if is_static(c)])
    return static, all_of([c for c in conditions if not is_static(c)])
