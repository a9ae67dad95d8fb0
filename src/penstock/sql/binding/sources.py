"""FROM: tables, streams, other queries, subqueries and the joins between them."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from sqlglot import exp

from penstock.catalog.model import POSITION_COLUMN, TIME_COLUMN, QueryDefinition, Table
from penstock.errors import error, suggest
from penstock.functions.samples import PARTS
from penstock.sql.binding.coercion import Coercion
from penstock.sql.binding.context import BindingInput, Ctes, QueryPlace, SelectContext
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.binding.window_joins import cut_to_reader, read_outputs, tells_its_time
from penstock.sql.bound_trees import both, hidden_column, named_column, quoted
from penstock.sql.nodes import SampleCondition
from penstock.sql.plan import Output, plan_from_json
from penstock.sql.scope import BoundSource, SourceColumn, fold
from penstock.sql.values import constant, external, type_of, typed
from penstock.types import BIGINT, BOOLEAN, TIMESTAMP, Field

SYSTEM_SCHEMA = "penstock"


class QuestionBinder(Protocol):
    """What FROM needs of the binder of the whole question (`query.QueryBinder`)."""

    given: BindingInput
    expressions: ExpressionBinder

    def enter(self, context: SelectContext) -> None: ...

    def query(self, query: exp.Query, place: QueryPlace) -> list[Field]: ...

    def inline(self, definition: QueryDefinition, reader: SelectContext) -> tuple[exp.Query, list[Field]]: ...


class SourceBinder:
    """Fills the scope of a SELECT from its FROM list."""

    def __init__(self, binder: QuestionBinder, context: SelectContext) -> None:
        self._binder = binder
        self._context = context
        self._expressions = binder.expressions
        self._fail = binder.expressions.fail

    def bind(self) -> None:
        select, context = self._context.select, self._context
        clause = select.args.get("from_")
        if clause is None:
            return
        self._add(clause.this)
        for join in self._joins(select, clause.this):
            self._join(join)
        for alias in context.windows.by_alias:
            source = next((s for s in context.sources if s.alias == alias), None)
            if source is None:
                self._refuse_window_for(alias)
            source.needs_stream = True

    def _refuse_window_for(self, alias: str) -> NoReturn:
        names = [f'"{s.alias}"' for s in self._context.sources]
        failure = error("table_not_found", table=alias, hint=f"FROM has {' and '.join(names)}")
        failure.message = f'there is no "{alias}" in FROM that could have a window of its own'
        windows = (clause.args.get("alias") for clause in self._context.select.args["begin_end"].expressions)
        self._fail(next(name for name in windows if name is not None and name.name == alias), failure)

    def _joins(self, select: exp.Select, first: exp.Expr) -> list[exp.Expr]:
        # `FROM a JOIN b` hangs the join on the table, `FROM a, b` on the SELECT; both mean the same here.
        hanging = list(first.args.get("joins") or [])
        if hanging:
            first.set("joins", None)
            select.set("joins", [*hanging, *(select.args.get("joins") or [])])
        return list(select.args.get("joins") or [])

    def _join(self, join: exp.Expr) -> None:
        context = self._context
        side = (join.args.get("side") or "").upper()
        kind = (join.args.get("kind") or "").upper()
        if join.args.get("method"):
            method = str(join.args["method"]).upper()
            self._fail(join.this, error("not_supported", feature=f"{method} JOIN", hint="say the columns with ON"))
        if kind in ("SEMI", "ANTI"):
            self._fail(join.this, error("not_supported", feature=f"{kind} JOIN", hint="use IN or EXISTS"))
        before = list(context.sources)
        source = self._add(join.this)
        if side in ("LEFT", "FULL"):
            source.nullable = True
        if side in ("RIGHT", "FULL"):
            for other in before:
                other.nullable = True
        self._binder.enter(context)
        using = join.args.get("using")
        if using:
            join.set("on", self._using(using, before, source))
            join.set("using", None)
        elif join.args.get("on") is not None:
            join.set("on", self._expressions.predicate(join.args["on"], context.scope, "ON"))

    def _using(self, names: list[Any], before: list[BoundSource], source: BoundSource) -> exp.Expr:
        scope = self._context.scope
        condition: exp.Expr | None = None
        for identifier in names:
            name = fold(identifier)
            owner = next((s for s in before if s.find([name]) is not None), None)
            left = owner.find([name]) if owner is not None else None
            right = source.find([name])
            if owner is None or left is None or right is None:
                self._fail(identifier, scope.missing([name]))
            sides = [named_column(owner, left[0]), named_column(source, right[0])]
            sides = self._expressions.unify(sides, identifier, "compare")
            condition = both(condition, typed(exp.EQ(this=sides[0], expression=sides[1]), BOOLEAN))
            scope.merged[name] = owner
        assert condition is not None
        return condition

    def _add(self, item: exp.Expr) -> BoundSource:
        context = self._context
        sample = item.args.get("sample")
        item.set("sample", None)
        source = self._source(item)
        if sample is not None:
            context.samples.append((source, sample))
        if any(other.alias == source.alias for other in context.sources):
            detail = f'FROM has two sources called "{source.alias}"'
            hint = f"give each a name of its own: {source.name or source.alias} a, {source.name or source.alias} b"
            self._fail(item, error("syntax_error", detail=detail, hint=hint))
        context.sources.append(source)
        for join in item.args.get("joins") or []:
            self._fail(join, error("not_supported", feature="a join inside a list", hint="write the JOINs last"))
        return source

    def _source(self, item: exp.Expr) -> BoundSource:
        match item:
            case exp.Table() if isinstance(item.this, exp.Identifier):
                return self._table(item)
            case exp.Subquery():
                return self._subquery(item, item.this)
            case exp.Values():
                return self._values(item)
        self._fail(item, error("not_supported", feature=f"{type(item).__name__.upper()} in FROM"))

    def _alias(self, item: exp.Expr, fallback: str) -> str:
        alias = item.args.get("alias")
        if alias is not None and alias.this is not None:
            return fold(alias.this)
        if fallback:
            return fallback
        self._binder.given.collected.names += 1
        return f"_q{self._binder.given.collected.names}"

    def _columns(self, item: exp.Expr, fields: list[Field]) -> tuple[SourceColumn, ...]:
        alias = item.args.get("alias")
        renamed = [_column_name(c) for c in (alias.args.get("columns") or [])] if alias is not None else []
        if len(renamed) > len(fields):
            detail = f"{len(renamed)} names for {len(fields)} columns"
            self._fail(item, error("syntax_error", detail=detail))
        names = renamed + [field.name for field in fields[len(renamed) :]]
        return tuple(SourceColumn(name, field.type) for name, field in zip(names, fields, strict=True))

    def _table(self, item: exp.Table) -> BoundSource:
        given, ctes = self._binder.given, self._context.ctes
        name = fold(item.this)
        schema = fold(item.args["db"]) if item.args.get("db") is not None else None
        alias = self._alias(item, name)
        if item.args.get("alias") is not None and item.args["alias"].args.get("columns") and name not in ctes:
            self._fail(item, error("not_supported", feature="new names for a table's columns", hint="use AS in SELECT"))
        shown = name if schema is None else f"{schema}.{name}"
        if schema == SYSTEM_SCHEMA and shown in given.system_tables:
            columns = tuple(SourceColumn(f.name, f.type) for f in given.system_tables[shown])
            return BoundSource(alias, "system", columns, item, name=shown)
        if schema is None and name in ctes:
            return self._cte(item, name, alias)
        if schema in (None, "public") and name in given.state.tables:
            return self._stored(item, given.state.tables[name], alias)
        if schema in (None, "public") and name in given.state.queries:
            return self._query(item, name, alias)
        known = [*given.state.tables, *given.state.queries, *ctes]
        hint = suggest(shown, [*known, *given.system_tables])
        if hint is None and known:
            hint = "there are " + ", ".join(sorted(known)[:10])
        self._fail(item, error("table_not_found", table=shown, hint=hint))

    def _stored(self, item: exp.Expr, table: Table, alias: str) -> BoundSource:
        flat = table.flat_columns()
        if table.stream is None:
            columns = tuple(SourceColumn(c.name, c.type) for c in flat)
            return BoundSource(alias, "ordinary", columns, item, table, table.name)
        columns = tuple(
            SourceColumn(c.name, c.type, c.origin, c.source if c.origin == "stream" else None) for c in flat
        )
        # A table without static columns has nothing but its readings.
        return BoundSource(alias, "sensors", columns, item, table, table.name, needs_stream=not table.columns)

    def _cte(self, item: exp.Table, name: str, alias: str) -> BoundSource:
        query, around, names = self._context.ctes[name]
        inner = query.copy()
        fields = self._binder.query(inner, self._inside(around))
        fields = [Field(n, f.type) for n, f in zip(names, fields, strict=False)] + fields[len(names) :]
        return self._derived(item, inner, alias, fields)

    def _inside(self, ctes: Ctes) -> QueryPlace:
        return QueryPlace(self._context.windows, "derived", parent=self._context, ctes=ctes)

    def _derived(self, item: exp.Expr, query: exp.Expr, alias: str, fields: list[Field], name: str = "") -> BoundSource:
        """A bound question in FROM, in the place of what was written there."""
        columns = self._columns(item, fields)
        node = exp.Subquery(this=query, alias=_table_alias(alias, columns))
        item.replace(node)
        return BoundSource(alias, "derived", columns, node, name=name)

    def _subquery(self, item: exp.Expr, inner: exp.Expr) -> BoundSource:
        alias = self._alias(item, "")
        if isinstance(inner, exp.Table):
            self._fail(inner, error("not_supported", feature="parentheses around a table", hint="leave them out"))
        if isinstance(inner, exp.Values):
            inner.set("alias", item.args.get("alias"))
            item.replace(inner)
            return self._values(inner)
        fields = self._binder.query(inner, self._inside(self._context.ctes))  # type: ignore[arg-type] # checked there
        return self._derived(item, inner, alias, fields)

    def _values(self, item: exp.Values) -> BoundSource:
        alias = self._alias(item, "")
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in item.expressions]
        bound = [[self._expressions.bind(value, self._context.scope) for value in row] for row in rows]
        width = len(bound[0])
        if any(len(row) != width for row in bound):
            self._fail(item, error("syntax_error", detail="the rows of VALUES differ in length"))
        columns = [self._expressions.unify([row[i] for row in bound], item, "mix") for i in range(width)]
        fields = [Field(f"column{i + 1}", external(type_of(column[0]))) for i, column in enumerate(columns)]
        item.set("expressions", [exp.Tuple(expressions=[c[r] for c in columns]) for r in range(len(bound))])
        found = self._columns(item, fields)
        item.set("alias", _table_alias(alias, found))
        return BoundSource(alias, "derived", found, item)

    def _query(self, item: exp.Table, name: str, alias: str) -> BoundSource:
        """Another standing query: select-project ones are read like a stream, others are written out as a view.

        A condition that has to last takes rows back when a late one breaks it: such a query is no stream.

        So are window joins, by questions that are asked once: only standing readers have kept what they reach.
        """
        given, collected = self._binder.given, self._binder.given.collected
        definition = given.state.queries[name]
        collected.queries.add(name)
        plan = plan_from_json(definition.plan)
        selection, join = plan.selection, plan.pure_join
        if selection is not None and selection.lasting is None:
            honest = all(str(o.expr) == TIME_COLUMN for o in selection.outputs if o.name == TIME_COLUMN)
            return self._append_only(item, name, alias, selection.outputs, honest)
        if join is not None and given.standing:
            return self._append_only(item, name, alias, read_outputs(join), tells_its_time(join))
        asked = plan.aggregation
        if plan.latch is not None or (asked is not None and asked.is_answer_only):
            # Written out it would read the log, which has less than its state, or say what Spark SQL has no words for.
            outputs = asked.outputs if asked is not None else ()
            state = tuple(SourceColumn(o.name, o.type) for o in outputs)
            return BoundSource(alias, "state", state, item, name=name)
        if name in collected.reading:
            path = " and ".join(collected.reading)
            self._fail(item, error("query_loop", query=name, path=path))
        inner, fields = self._binder.inline(definition, self._context)
        if join is not None:
            written_out = next(c for c in collected.contexts if c.select is inner)
            cut_to_reader(written_out, join, self._context, self._context.windows.of(alias))
        return self._derived(item, inner, alias, fields, name)

    def _append_only(
        self, item: exp.Table, name: str, alias: str, outputs: tuple[Output, ...], honest: bool
    ) -> BoundSource:
        """`honest`: a column called ts is the time of the row."""
        if not honest:
            hint = 'an answer has a time of its own called "ts"; give that column another name'
            feature = f'reading query "{name}", which calls something else "ts",'
            self._fail(item, error("not_supported", feature=feature, hint=hint))
        columns = [SourceColumn(o.name, o.type, "stream", o.name) for o in outputs if o.name != TIME_COLUMN]
        columns.append(SourceColumn(TIME_COLUMN, TIMESTAMP, "time"))
        return BoundSource(alias, "query", tuple(columns), item, name=name, needs_stream=True)


def _table_alias(alias: str, columns: tuple[SourceColumn, ...]) -> exp.TableAlias:
    return exp.TableAlias(this=quoted(alias), columns=[quoted(column.name) for column in columns])


def _column_name(node: Any) -> str:
    """A name in `AS t (a, b)`; sqlglot may read it as a column's definition."""
    inner = node.this if isinstance(node, exp.ColumnDef) else node
    return fold(inner)


# -- TABLESAMPLE: some of a table's readings, by chance with a seed, or every n-th. Aurora's Drop, the other way round

MOST_PERIOD = 1_000_000_000
_EXAMPLE = "write FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7), or TABLESAMPLE PERIODIC (10)"


def sample_condition(binder: Coercion, source: BoundSource, sample: exp.TableSample) -> exp.Expr:
    """What WHERE asks of a sampled table. Where a reading stands in the log decides, so every look sees the same ones."""
    if source.kind != "sensors" or source.nullable:
        what = "the optional side of an outer join" if source.nullable else "anything but a sensor table"
        hint = "sample the table in a subquery: FROM (SELECT .. FROM t TABLESAMPLE BERNOULLI (10)) t"
        binder.fail(source.node, error("not_supported", feature=f"TABLESAMPLE of {what}", hint=hint))
    source.needs_stream = True
    place = hidden_column(source, POSITION_COLUMN.name)
    method = sample.args["method"].name.upper() if sample.args.get("method") is not None else "BERNOULLI"
    seed = _seed(binder, source, sample)
    if method == "BERNOULLI":
        percent = _number(binder, source, sample, "percent", 0.0, 100.0)
        return typed(SampleCondition(this=place, seed=str(seed), parts=str(round(percent / 100 * PARTS))), BOOLEAN)
    if method == "PERIODIC":
        key = "percent" if sample.args.get("percent") is not None else "size"
        period = _number(binder, source, sample, key, 1, MOST_PERIOD)
        if period != int(period):
            _refuse(binder, source, sample.args[key], "TABLESAMPLE PERIODIC (n) keeps every n-th reading")
        rest = typed(exp.Mod(this=place, expression=constant(int(period), BIGINT)), BIGINT)
        return typed(exp.EQ(this=rest, expression=constant(seed % int(period), BIGINT)), BOOLEAN)
    binder.fail(source.node, error("not_supported", feature=f"TABLESAMPLE {method}", hint=_EXAMPLE))


def _seed(binder: Coercion, source: BoundSource, sample: exp.TableSample) -> int:
    node = sample.args.get("seed")
    if node is None:
        return 0
    text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    if not text.isdecimal() or int(text) >= 2**63:
        _refuse(binder, source, node, "REPEATABLE takes a whole number")
    return int(text)


def _number(
    binder: Coercion, source: BoundSource, sample: exp.TableSample, key: str, least: float, most: float
) -> float:
    node = sample.args.get(key)
    given = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        words = "a percentage" if most == 100 else "a number of readings"
        _refuse(binder, source, node, f"TABLESAMPLE takes {words} between {least:g} and {most:,.0f}")
    return value


def _refuse(binder: Coercion, source: BoundSource, node: exp.Expr | None, detail: str) -> None:
    binder.fail(node or source.node, error("syntax_error", detail=detail, hint=_EXAMPLE), source.node)
