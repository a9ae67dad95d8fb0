"""Bind a question: every SELECT in it, its FROM, its list, its clauses."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from sqlglot import exp

from penstock.catalog.model import QueryDefinition
from penstock.errors import error
from penstock.json_rows import unique_names
from penstock.sql.binding.approximate import write_out_bounds, write_out_errors
from penstock.sql.binding.calls import is_aggregate
from penstock.sql.binding.context import BindingInput, Ctes, QueryPlace, Role, SelectContext
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.binding.grouping import bind_landmark, bind_latch, bind_tumble, check_grouping, name_edges, take_slide
from penstock.sql.binding.names import output_name
from penstock.sql.binding.select_list import bind_limits, bind_order, bind_select_list, ordinal
from penstock.sql.binding.sources import SourceBinder, sample_condition
from penstock.sql.binding.window_joins import bind_window_joins
from penstock.sql.bound_trees import both, branches, output_column, quoted, window_functions
from penstock.sql.parse import parse_select
from penstock.sql.scope import Scope, fold
from penstock.sql.values import external, type_of
from penstock.sql.window_clauses import default_windows, windows_of
from penstock.types import Field


class QueryBinder:
    """Binds the questions of one text into a shared collection."""

    def __init__(self, text: str, given: BindingInput, start_us: int | None = None, inlined: bool = False) -> None:
        self.text = text
        self.given = given
        self.start_us = start_us
        self.inlined = inlined
        self._context: SelectContext | None = None
        self.expressions = ExpressionBinder(text, given.state.functions, self._subquery)
        self.fail = self.expressions.fail

    def bind(self, query: exp.Query) -> list[Field]:
        """Bind the whole question in place; the columns it answers."""
        fields = self.query(query, QueryPlace(default_windows(self.given.standing), "top"))
        self.given.collected.functions |= self.expressions.used_functions
        self.given.collected.mines |= self.expressions.mines
        return [Field(field.name, external(field.type)) for field in fields]

    def _subquery(self, query: exp.Query, scope: Scope, role: Role) -> list[Field]:
        context = self._context
        assert context is not None
        fields = self.query(query, QueryPlace(context.windows, role, scope, context, context.ctes))
        self._context = context
        return fields

    def query(self, query: exp.Query, place: QueryPlace) -> list[Field]:
        """A SELECT, a set operation or VALUES."""
        place = replace(place, ctes=self._with(query, place.ctes))
        if isinstance(query, exp.Select):
            return self._select(query, place)
        if not isinstance(query, exp.Subquery | exp.SetOperation):
            self.fail(query, error("not_supported", feature=f"{type(query).__name__.upper()} as a question"))
        place = replace(place, windows=windows_of(query, place.windows, self.given.standing, self.text))
        if isinstance(query, exp.Subquery):
            return self.query(query.this, place)
        return self._set_operation(query, place)

    def inline(self, definition: QueryDefinition, reader: SelectContext) -> tuple[exp.Query, list[Field]]:
        """The stored text of another query, bound where `reader` reads it, and its columns."""
        stored = parse_select(definition.sql)
        inner = stored.query.copy()
        collected = self.given.collected
        binder = QueryBinder(stored.source.text, replace(self.given, standing=True), definition.start_us, inlined=True)
        reading, collected.reading = collected.reading, (*collected.reading, definition.name)
        fields = binder.query(inner, QueryPlace(default_windows(True), "derived", parent=reader))
        collected.functions |= binder.expressions.used_functions
        collected.mines |= binder.expressions.mines
        collected.reading = reading
        return inner, fields

    def enter(self, context: SelectContext) -> None:
        """From now on subqueries in expressions stand inside this SELECT."""
        self._context = context

    def _with(self, query: exp.Query, ctes: Ctes) -> Ctes:
        """Common table expressions are written out where they are used: every reference reads for itself."""
        clause = query.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            self.fail(clause, error("not_supported", feature="WITH RECURSIVE"))
        for cte in clause.expressions:
            alias = cte.args["alias"]
            names = [fold(column) for column in alias.args.get("columns") or []]
            ctes = {**ctes, fold(alias.this): (cte.this, ctes, names)}
        query.set("with_", None)
        return ctes

    def _set_operation(self, query: exp.SetOperation, place: QueryPlace) -> list[Field]:
        left, right = (self.query(side, place) for side in (query.left, query.right))
        if len(left) != len(right):
            detail = f"one side has {len(left)} columns, the other {len(right)}"
            self.fail(query.right, error("type_mismatch", detail=detail))
        fields = []
        for a, b in zip(left, right, strict=True):
            met = self.expressions.common_type(a.type, b.type, query.right, f'combine column "{a.name}":')
            fields.append(Field(a.name, met))
        for select in branches(query):
            for item, field in zip(select.expressions, fields, strict=True):
                item.set("this", self.expressions.coerce(item.this, field.type))
        outputs = Scope(named={field.name: output_column(field.name, field.type) for field in fields})
        bind_order(self.expressions, query, outputs, fields)
        bind_limits(self.expressions, query)
        return fields

    # -- one SELECT

    def _select(self, select: exp.Select, place: QueryPlace) -> list[Field]:
        binder = self.expressions
        sliding_us = take_slide(select, binder)
        scope = Scope(place.outer)
        windows = windows_of(select, place.windows, self.given.standing, self.text)
        context = SelectContext(
            select, scope, windows, place.role, place.parent, self.text, place.ctes, self.start_us, self.inlined
        )
        self.given.collected.contexts.append(context)
        if place.parent is not None and place.role == "derived":
            place.parent.in_from.append(context)
        self._refuse(select)
        write_out_errors(select)
        write_out_bounds(select)
        context.algorithm = _take_algorithm(context)
        self.enter(context)
        SourceBinder(self, context).bind()
        self.enter(context)
        windows_between = bind_window_joins(context, self.given.standing)
        if sliding_us is not None:
            name_edges(scope, sliding_us)
        bind_latch(select, scope, binder)
        bind_tumble(select, scope, binder)
        bind_landmark(select, scope, binder)
        self._where(select, context, windows_between)
        originals, items = bind_select_list(binder, select, scope)
        names = unique_names([output_name(o) if isinstance(o, exp.Expr) else o for o in originals])
        self._group(select, context, names, items)
        for name, item in zip(names, items, strict=True):
            scope.named.setdefault(name, item)
        having = select.args.get("having")
        if having is not None:
            having.set("this", binder.predicate(having.this, scope, "HAVING"))
        self._qualify(select, context, items)
        fields = [Field(name, type_of(item)) for name, item in zip(names, items, strict=True)]
        bind_order(binder, select, scope, fields)
        for window in select.args.get("windows") or []:
            binder.bind_over(window, scope)
        bind_limits(binder, select)
        named = zip(items, map(quoted, names), strict=True)
        select.set("expressions", [exp.Alias(this=item, alias=alias) for item, alias in named])
        context.aggregated = check_grouping(select, scope, self.text)
        return fields

    def _refuse(self, select: exp.Select) -> None:
        for key, feature in (
            ("laterals", "LATERAL VIEW"),
            ("pivots", "PIVOT"),
            ("match", "MATCH_RECOGNIZE"),
            ("sample", "TABLESAMPLE"),
            ("locks", "FOR UPDATE"),
            ("into", "SELECT INTO"),
            ("connect", "CONNECT BY"),
            ("kind", "SELECT AS STRUCT"),
        ):
            found = select.args.get(key)
            if found:
                self.fail(found if isinstance(found, exp.Expr) else select, error("not_supported", feature=feature))

    def _where(self, select: exp.Select, context: SelectContext, windows_between: list[exp.Expr]) -> None:
        where = select.args.get("where")
        conditions = [self.expressions.predicate(where.this, context.scope, "WHERE")] if where is not None else []
        for node in conditions:
            for part in node.walk(prune=lambda n: isinstance(n, exp.Query | exp.Window)):
                if is_aggregate(part) and not isinstance(part.parent, exp.Window):
                    failure = error(
                        "grouping_error", detail="WHERE comes before grouping", hint="put aggregates into HAVING"
                    )
                    self.fail(part, failure)
        sampled = [sample_condition(self.expressions, source, sample) for source, sample in context.samples]
        conditions += [*sampled, *windows_between]
        if conditions:
            select.set("where", exp.Where(this=reduce(both, conditions)))

    def _qualify(self, select: exp.Select, context: SelectContext, items: list[exp.Expr]) -> None:
        """QUALIFY is WHERE for window functions: at least one stands in it or in the SELECT list."""
        qualify = select.args.get("qualify")
        if qualify is None:
            return
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            self.fail(
                qualify, error("not_supported", feature="QUALIFY beside DISTINCT ON", hint="QUALIFY alone says both")
            )
        written = qualify.this
        qualify.set("this", self.expressions.predicate(written, context.scope, "QUALIFY"))
        if not any(window_functions(tree) for tree in (qualify.this, *items)):
            hint = "write QUALIFY ROW_NUMBER() OVER (PARTITION BY key ORDER BY value DESC) <= 3; WHERE and HAVING take other conditions"
            self.fail(written, error("syntax_error", detail="QUALIFY needs a window function", hint=hint))

    def _group(self, select: exp.Select, context: SelectContext, names: list[str], items: list[exp.Expr]) -> None:
        group = select.args.get("group")
        if group is None:
            return
        if group.args.get("all"):
            self.fail(group, error("not_supported", feature="GROUP BY ALL"))

        def one(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Dot | exp.Anonymous) and "penstock" in node.meta:
                return node  # the start of a pane, or a session
            if isinstance(node, exp.Literal) and node.is_int:
                chosen: exp.Expr = ordinal(self.expressions, node, items)
                return chosen.copy()
            plain = isinstance(node, exp.Column) and len(node.parts) == 1
            if plain and fold(node.this) in names and fold(node.this) not in context.scope.combination:
                with self.expressions.pointing(node):
                    found = context.scope.find([fold(node.this)])
                if found is None:
                    return items[names.index(fold(node.this))].copy()
            if isinstance(node, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets):
                return type(node)(expressions=[one(inner) for inner in node.expressions])
            return self.expressions.bind(node, context.scope)

        group.set("expressions", [one(node) for node in group.expressions])
        for key in ("rollup", "cube", "grouping_sets"):
            for node in group.args.get(key) or []:
                node.set("expressions", [one(inner) for inner in node.expressions])


def _take_algorithm(context: SelectContext) -> exp.Expr | None:
    """The algorithm that the SELECT's hint names, taken out of the tree: Spark has other hints."""
    hint = context.select.args.get("hint")
    if hint is None:
        return None
    context.select.set("hint", None)
    algorithm: exp.Expr = hint.expressions[0].expressions[0]
    if context.role != "top" and not context.inlined:
        advice = "put it behind the first SELECT"
        context.fail(algorithm, error("not_supported", feature="a hint inside a subquery", hint=advice))
    return algorithm
