"""Ordinary tables of a window join -> JoinTable: what each decides alone, what it is looked up by, what is tested."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.expr.expression import Expr, calls_user
from penstock.sql.binding.context import SelectContext
from penstock.sql.bound_trees import conjuncts, quoted, sources_in
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.plan import JoinTable, TableUse
from penstock.sql.planning.join.keys import EqualitySide, usable
from penstock.sql.planning.relations import all_of, refuse_clauses
from penstock.sql.scope import BoundSource
from penstock.sql.values import type_of, typed
from penstock.types import BOOLEAN


def join_tables(
    streams: Sequence[BoundSource], tables: Sequence[BoundSource], conditions: Sequence[exp.Expr]
) -> list[JoinTable]:
    """The tables in an order in which as many as possible can be looked up, each with the conditions it completes."""
    known, left, waiting = set(streams), list(tables), list(conditions)
    found = []
    while left:
        table = next((t for t in left if any(_key(c, t, known) for c in waiting)), left[0])
        left.remove(table)
        due = [c for c in waiting if sources_in(c) <= known | {table}]
        waiting = [c for c in waiting if not sources_in(c) <= known | {table}]
        found.append(join_table(table, due, known))
        known.add(table)
    return found


def join_table(
    table: BoundSource, conditions: Sequence[exp.Expr], known: set[BoundSource], use: TableUse = "inner"
) -> JoinTable:
    """One table with conditions that it and the sources known before it decide."""
    assert table.table is not None
    alone: list[Expr] = []
    keys: list[tuple[Expr, Expr]] = []
    rest: list[Expr] = []
    for condition in conditions:
        own = sources_in(condition) == {table}
        if own and not calls_user(lower(condition)):  # a function sees only rows that the combination reaches
            alone.append(lower(condition))
        elif (key := _key(condition, table, known)) is not None:
            keys.append(key)
        else:
            rest.append(qualified(condition))
    return JoinTable(table.alias, table.table.id, all_of(alone), tuple(keys), tuple(rest), use)


def _key(condition: exp.Expr, table: BoundSource, known: set[BoundSource]) -> tuple[Expr, Expr] | None:
    """(value, column) where a condition says which of the table's rows match, once `known` sources are."""
    if not isinstance(condition, exp.EQ):
        return None
    for own, other in ((condition.this, condition.expression), (condition.expression, condition.this)):
        if sources_in(own) == {table} and sources_in(other) and sources_in(other) <= known:
            column = lower(own)
            if usable((EqualitySide(0, column), EqualitySide(1, column))) and not calls_user(column):
                return qualified(other), column
    return None


def implied_equalities(streams: Sequence[BoundSource], conditions: Sequence[exp.Expr]) -> list[exp.Expr]:
    """What a.zone = z.id AND b.zone = z.id says about the streams themselves: a.zone = b.zone."""
    first: dict[tuple[BoundSource, Expr], exp.Expr] = {}
    found: list[exp.Expr] = []
    for condition in conditions:
        if not isinstance(condition, exp.EQ):
            continue
        for own, other in ((condition.this, condition.expression), (condition.expression, condition.this)):
            tables, readers = sources_in(own), sources_in(other)
            if len(tables) != 1 or len(readers) != 1 or tables <= set(streams) or not readers <= set(streams):
                continue
            value = first.setdefault((next(iter(tables)), lower(own)), other)
            if sources_in(value) != readers:
                found.append(typed(exp.EQ(this=value.copy(), expression=other.copy()), BOOLEAN))
    return found


def qualified(node: exp.Expr) -> Expr:
    """The expression over whole combinations: every column as alias.column."""
    renamed = node.copy()
    for column in renamed.find_all(exp.Column):
        column.set("this", quoted(f"{column.meta['source'].alias}.{column.name}"))
    return lower(renamed)


# -- IN, NOT IN, EXISTS and NOT EXISTS

Asked = tuple[BoundSource, list[exp.Expr], TableUse]


def asked_tables(
    conditions: Sequence[exp.Expr], inner: Sequence[SelectContext], names: set[str]
) -> tuple[list[exp.Expr], list[Asked]]:
    """Conditions without those that ask about a table's rows, by IN or EXISTS or NOT before them, and for these: what of it."""
    asking = {id(context.select): context for context in inner}
    plain: list[exp.Expr] = []
    asked: list[Asked] = []
    for condition in conditions:
        if any(source.nullable for source in sources_in(condition)):
            raise NotCovered("a condition of WHERE on the right side of a LEFT JOIN runs as Spark SQL")
        negated = isinstance(condition, exp.Not)
        question = condition.this.unnest() if negated else condition
        context = asking.pop(id(_select_of(question)), None)
        if context is None:
            plain.append(condition)
            continue
        source = _only_table(context, names)
        names = names | {source.alias}
        wanted = [*_in_column(question, context, negated), *conjuncts(context.select.args.get("where"))]
        asked.append((source, wanted, "missing" if negated else "exists"))
    if asking:
        raise NotCovered(f"{_BESIDE} unless it is IN or EXISTS over a table and AND connects it")
    return plain, asked


_BESIDE = "a subquery beside a stream runs as Spark SQL"


def _select_of(condition: exp.Expr) -> exp.Expr | None:
    query = condition.args.get("query") if isinstance(condition, exp.In) else None
    if isinstance(condition, exp.Exists):
        query = condition.this
    return query.unnest() if isinstance(query, exp.Subquery) else query


def _only_table(context: SelectContext, names: set[str]) -> BoundSource:
    refuse_clauses(context)
    if len(context.sources) != 1 or context.sources[0].kind != "ordinary":
        raise NotCovered(f"{_BESIDE} unless it reads one table without a stream")
    (source,) = context.sources
    if source.alias in names or "." in source.alias:
        raise NotCovered("two tables of the same name, or one with a dot in it, run as Spark SQL")
    return source


def _in_column(condition: exp.Expr, context: SelectContext, negated: bool) -> list[exp.Expr]:
    """Which of the table's rows decide IN: those that equal the value. NOT IN is never true beside one of which that is not known."""
    if not isinstance(condition, exp.In):
        return []
    value, column = condition.this, context.select.expressions[0].this
    unknown = [node for node in (value, column) if negated and not _is_key(node)]
    if type_of(column) != type_of(value):
        column = typed(exp.Cast(this=column.copy(), to=exp.DataType(this=exp.DType.UNKNOWN)), type_of(value))
    decides = typed(exp.EQ(this=value, expression=column), BOOLEAN)
    for node in unknown:
        missing = typed(exp.Is(this=node.copy(), expression=exp.Null()), BOOLEAN)
        decides = typed(exp.Or(this=decides, expression=missing), BOOLEAN)
    return [decides]


def _is_key(node: exp.Expr) -> bool:
    """Whether it is a column of a primary key, which is never NULL."""
    source = node.meta.get("source")
    table = source.table if isinstance(source, BoundSource) else None
    return isinstance(node, exp.Column) and table is not None and node.name in table.key


# -- LEFT JOIN


def left_tables(top: SelectContext) -> tuple[list[exp.Expr], list[Asked]]:
    """The conditions of ON in FROM without those of tables that a LEFT JOIN adds, and for these: theirs."""
    plain: list[exp.Expr] = []
    left: list[Asked] = []
    for join in top.select.args.get("joins") or []:
        conditions = conjuncts(join.args.get("on"))
        source = next(s for s in top.sources if s.node is join.this)
        if source.nullable:
            if any(later.is_stream for later in top.sources[top.sources.index(source) :]):
                raise NotCovered(f'"{source.name}" of a LEFT JOIN before a stream runs as Spark SQL')
            left.append((source, conditions, "left"))
        else:
            plain += conditions
    return plain, left
