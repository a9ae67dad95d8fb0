"""Bind one expression: resolve its names, give it a type, bring operands to equal types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from sqlglot import exp

from penstock.catalog.model import Function
from penstock.errors import PenstockError, error, suggest
from penstock.sql import values
from penstock.sql.binding.functions import (
    AGGREGATES,
    RANKING,
    RULES,
    SPARK_AGGREGATES,
    SPARK_FUNCTIONS,
    Rule,
    stated_type,
)
from penstock.sql.dialect import sql_of
from penstock.sql.durations import duration_us
from penstock.sql.nodes import Const, Duration
from penstock.sql.positions import point, span_of
from penstock.sql.scope import Scope, fold
from penstock.sql.values import DURATION, NULL, constant, convert, external, meet, show, type_of, typed
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT, TIMESTAMP, Field, Type

Bound = exp.Expr
SubqueryBinder = Callable[[exp.Query, Scope, str], list[Field]]

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)


class ExpressionBinder:
    """Binds expressions of one text. `used_functions` collects the user's functions that are called."""

    def __init__(self, text: str, functions: Mapping[str, Function], subquery: SubqueryBinder | None = None) -> None:
        self.text = text
        self.functions = functions
        self.subquery = subquery
        self.used_functions: set[str] = set()

    def fail(self, node: exp.Expr | None, failure: PenstockError) -> NoReturn:
        raise point(failure, self.text, span_of(node) if node is not None else None) from None

    # -- entry points

    def bind(self, node: exp.Expr, scope: Scope) -> Bound:
        """The expression, bound. Raises errors that point at the offending part."""
        for kind in type(node).__mro__:
            method = _METHODS.get(kind)
            if method is not None:
                bound: Bound = method(self, node, scope)
                return bound
        if isinstance(node, exp.Func):
            return self._function(node, scope)
        self.fail(node, error("not_supported", feature=_words(node)))

    def predicate(self, node: exp.Expr, scope: Scope, where: str) -> Bound:
        bound = self.bind(node, scope)
        if type_of(bound) not in (BOOLEAN, NULL):
            detail = f"{where} needs a condition, this is {show(type_of(bound))}"
            self.fail(node, error("type_mismatch", detail=detail))
        return self.coerce(bound, BOOLEAN)

    # -- types

    def coerce(self, node: Bound, target: Type) -> Bound:
        """The node with the target type; a constant is converted, anything else is cast."""
        source = type_of(node)
        if source == target:
            return node
        if isinstance(node, Const):
            if source == NULL:
                return constant(None, target, node)
            try:
                return constant(convert(node.value, source, target), target, node)
            except PenstockError as failure:
                self.fail(node, failure)
        return typed(exp.Cast(this=node, to=exp.DataType(this=exp.DType.UNKNOWN)), target)

    def unify(self, nodes: list[Bound], at: exp.Expr, doing: str) -> list[Bound]:
        """All nodes with the one type they meet in. Quoted texts take the type of the others."""
        firm = [n for n in nodes if not (isinstance(n, Const) and n.meta.get("loose"))]
        target: Type | None = type_of(firm[0]) if firm else None
        for node in firm[1:]:
            target = self._meet(target or NULL, type_of(node), at, doing)
        for node in nodes:
            if any(node is other for other in firm):
                continue
            if target is None or target == NULL:
                target = type_of(node)
            elif not (type_of(node) == TEXT and isinstance(node, Const)):
                target = self._meet(target, type_of(node), at, doing)
        return [self.coerce(node, target or TEXT) for node in nodes]

    def _meet(self, left: Type, right: Type, at: exp.Expr, doing: str) -> Type:
        found = meet(left, right)
        if found is None:
            hint = None
            if DURATION in (left, right) and (left.is_numeric or right.is_numeric):
                hint = "write a duration with its unit, such as 10 SECONDS"
            elif TEXT in (left, right):
                hint = "use CAST(... AS ...) if that is meant"
            self.fail(at, error("type_mismatch", detail=f"cannot {doing} {show(left)} with {show(right)}", hint=hint))
        return found

    # -- leaves

    def _column(self, node: exp.Column, scope: Scope) -> Bound:
        return self._name(node, list(node.parts), scope)

    def _dot(self, node: exp.Dot, scope: Scope) -> Bound:
        parts: list[Any] = []
        inner: Any = node
        while isinstance(inner, exp.Dot) and isinstance(inner.expression, exp.Identifier):
            parts.insert(0, inner.expression)
            inner = inner.this
        if isinstance(inner, exp.Column):
            return self._name(node, [*inner.parts, *parts], scope)
        return self._fields_of(self.bind(inner, scope), parts, node)

    def _name(self, node: exp.Expr, parts: list[Any], scope: Scope) -> Bound:
        path = [fold(part) for part in parts]
        try:
            found = scope.find(path)
        except PenstockError as failure:
            self.fail(node, failure)
        if found is None:
            if len(path) == 1 and path[0] in scope.named:
                return scope.named[path[0]].copy()
            if path == ["now"]:
                return typed(exp.CurrentTimestamp(), TIMESTAMP)
            if path == ["start"]:
                hint = "START stands in BEGIN (...) of a standing query"
                self.fail(node, error("not_supported", feature="START in an expression", hint=hint))
            missing = scope.missing(path)
            self.fail(parts[0] if missing.condition == "table_not_found" else parts[-1], missing)
        source, column, rest = found
        if column.origin in ("stream", "time"):
            source.needs_stream = True
        bound = exp.Column(
            this=exp.Identifier(this=column.name, quoted=True), table=exp.Identifier(this=source.alias, quoted=True)
        )
        where = span_of(node)
        if where is not None:
            bound.meta.update(start=where.start, end=where.end - 1)
        bound.meta["source"] = source
        bound.meta["origin"] = column.origin
        typed(bound, column.type)
        return self._fields_of(bound, parts[len(parts) - len(rest) :] if rest else [], node)

    def _fields_of(self, node: Bound, parts: list[Any], at: exp.Expr) -> Bound:
        for part in parts:
            name = fold(part)
            outer = type_of(node)
            field = next((f for f in outer.fields if f.name == name), None)
            if field is None:
                hint = suggest(name, [f.name for f in outer.fields])
                detail = f'{show(outer)} has no field "{name}"'
                self.fail(part, PenstockError("column_not_found", detail, hint=hint))
            node = typed(exp.Dot(this=node, expression=exp.Identifier(this=name, quoted=True)), field.type)
        return node

    def _literal(self, node: exp.Literal, scope: Scope) -> Bound:
        if node.is_string:
            return constant(node.name, TEXT, node, loose=True)
        value, type_ = values.number(node.name)
        return constant(value, type_, node)

    def _null(self, node: exp.Null, scope: Scope) -> Bound:
        return constant(None, NULL, node)

    def _boolean(self, node: exp.Boolean, scope: Scope) -> Bound:
        return constant(bool(node.this), BOOLEAN, node)

    def _bytes(self, node: exp.Expr, scope: Scope) -> Bound:
        if isinstance(node, exp.HexString):
            return constant(
                node.name.lower(), values.type_of_cast(exp.DataType.build("BYTEA", "postgres")) or TEXT, node
            )
        return constant(node.name, TEXT, node, loose=True)

    def _duration(self, node: Duration, scope: Scope) -> Bound:
        return constant(node.us, DURATION, node)

    def _interval(self, node: exp.Interval, scope: Scope) -> Bound:
        hint = "durations have weeks, days, hours, minutes, seconds, MS and US; months and years differ in length"
        self.fail(node, error("invalid_duration", text=sql_of(node), hint=hint))

    def _now(self, node: exp.Expr, scope: Scope) -> Bound:
        return typed(exp.CurrentTimestamp(), TIMESTAMP)

    def _bound(self, node: Bound, scope: Scope) -> Bound:
        return node

    # -- logic and comparisons

    def _paren(self, node: exp.Paren, scope: Scope) -> Bound:
        inner = self.bind(node.this, scope)
        return inner if isinstance(inner, Const) else typed(exp.Paren(this=inner), type_of(inner))

    def _connector(self, node: exp.Connector, scope: Scope) -> Bound:
        # A long chain leans to the left; walk it in a loop, not in recursion.
        terms: list[exp.Expr] = []
        inner: exp.Expr = node
        while type(inner) is type(node):
            terms.append(inner.expression)
            inner = inner.this
        word = "AND" if isinstance(node, exp.And) else "OR"
        bound = self.predicate(inner, scope, word)
        for term in reversed(terms):
            bound = typed(type(node)(this=bound, expression=self.predicate(term, scope, word)), BOOLEAN)
        return bound

    def _not(self, node: exp.Not, scope: Scope) -> Bound:
        return typed(exp.Not(this=self.predicate(node.this, scope, "NOT")), BOOLEAN)

    def _comparison(self, node: exp.Binary, scope: Scope) -> Bound:
        if isinstance(node.expression, exp.Any | exp.All):
            self.fail(node.expression, error("not_supported", feature="ANY or ALL", hint="use IN or EXISTS"))
        left, right = self.unify([self.bind(node.this, scope), self.bind(node.expression, scope)], node, "compare")
        return typed(type(node)(this=left, expression=right), BOOLEAN)

    def _between(self, node: exp.Between, scope: Scope) -> Bound:
        parts = [self.bind(part, scope) for part in (node.this, node.args["low"], node.args["high"])]
        value, low, high = self.unify(parts, node, "compare")
        if node.args.get("symmetric"):
            low, high = (
                typed(exp.Least(this=low.copy(), expressions=[high.copy()]), type_of(low)),
                typed(exp.Greatest(this=low.copy(), expressions=[high.copy()]), type_of(low)),
            )
        above = typed(exp.GTE(this=value, expression=low), BOOLEAN)
        below = typed(exp.LTE(this=value.copy(), expression=high), BOOLEAN)
        return typed(exp.Paren(this=typed(exp.And(this=above, expression=below), BOOLEAN)), BOOLEAN)

    def _in(self, node: exp.In, scope: Scope) -> Bound:
        value = self.bind(node.this, scope)
        query = node.args.get("query")
        if query is not None:
            inner = query.unnest() if isinstance(query, exp.Subquery) else query
            columns = self._subquery_columns(inner, scope, "in")
            if len(columns) != 1:
                detail = f"the subquery of IN has {len(columns)} columns instead of one"
                self.fail(inner, error("type_mismatch", detail=detail))
            target = self._meet(type_of(value), columns[0].type, node, "compare")
            return typed(exp.In(this=self.coerce(value, target), query=exp.Subquery(this=inner)), BOOLEAN)
        if node.args.get("unnest") or node.args.get("field"):
            self.fail(node, error("not_supported", feature="IN without a list", hint="write IN (1, 2, 3)"))
        items = [self.bind(item, scope) for item in node.expressions]
        value, *items = self.unify([value, *items], node, "compare")
        return typed(exp.In(this=value, expressions=items), BOOLEAN)

    def _is(self, node: exp.Is, scope: Scope) -> Bound:
        value = self.bind(node.this, scope)
        if isinstance(node.expression, exp.Boolean):
            value = self.coerce(value, BOOLEAN)
            bound = typed(exp.Is(this=value, expression=exp.Boolean(this=node.expression.this)), BOOLEAN)
        elif isinstance(node.expression, exp.Null):
            bound = typed(exp.Is(this=value, expression=exp.Null()), BOOLEAN)
        else:
            self.fail(node, error("not_supported", feature=_words(node)))
        return typed(exp.Not(this=bound), BOOLEAN) if node.args.get("negate") else bound

    def _like(self, node: exp.Binary, scope: Scope) -> Bound:
        sides = [self.bind(node.this, scope), self.bind(node.expression, scope)]
        for side, original in zip(sides, (node.this, node.expression), strict=True):
            if type_of(side) not in (TEXT, NULL):
                detail = f"{type(node).__name__.upper()} works on TEXT, this is {show(type_of(side))}"
                self.fail(original, error("type_mismatch", detail=detail))
        bound = typed(type(node)(this=self.coerce(sides[0], TEXT), expression=self.coerce(sides[1], TEXT)), BOOLEAN)
        return typed(exp.Not(this=bound), BOOLEAN) if node.args.get("negate") else bound

    def _escape(self, node: exp.Escape, scope: Scope) -> Bound:
        bound = self.bind(node.this, scope)
        return typed(exp.Escape(this=bound, expression=self.bind(node.expression, scope)), BOOLEAN)

    def _exists(self, node: exp.Exists, scope: Scope) -> Bound:
        inner = node.this.unnest() if isinstance(node.this, exp.Subquery) else node.this
        self._subquery_columns(inner, scope, "exists")
        return typed(exp.Exists(this=inner), BOOLEAN)

    def _scalar_subquery(self, node: exp.Expr, scope: Scope) -> Bound:
        inner = node.unnest() if isinstance(node, exp.Subquery) else node
        columns = self._subquery_columns(inner, scope, "scalar")
        if len(columns) != 1:
            detail = f"a subquery used as a value has {len(columns)} columns instead of one"
            self.fail(inner, error("type_mismatch", detail=detail))
        return typed(exp.Subquery(this=inner), columns[0].type)

    def _subquery_columns(self, query: exp.Expr, scope: Scope, role: str) -> list[Field]:
        if self.subquery is None or not isinstance(query, exp.Query):
            self.fail(query, error("not_supported", feature="a subquery here"))
        return self.subquery(query, scope, role)

    # -- arithmetic

    def _neg(self, node: exp.Neg, scope: Scope) -> Bound:
        value = self.bind(node.this, scope)
        if isinstance(value, Const) and value.value is not None and type_of(value) != TEXT:
            type_ = BIGINT if type_of(value) == BIGINT and value.value != 2**31 else type_of(value)
            return constant(-value.value, INT if value.value == 2**31 else type_, node.this, loose=value.meta["loose"])
        self._numeric(value, node)
        return typed(exp.Neg(this=value), type_of(value))

    def _numeric(self, node: Bound, at: exp.Expr) -> None:
        if not type_of(node).is_numeric and type_of(node) not in (DURATION, NULL):
            self.fail(at, error("type_mismatch", detail=f"cannot calculate with {show(type_of(node))}"))

    def _arithmetic(self, node: exp.Binary, scope: Scope) -> Bound:
        left, right = self.bind(node.this, scope), self.bind(node.expression, scope)
        kinds = (type_of(left), type_of(right))
        if TIMESTAMP in kinds or DURATION in kinds:
            return self._time_arithmetic(node, left, right)
        left, right = self.unify([left, right], node, "calculate")
        if type_of(left) == TEXT and isinstance(left, Const) and isinstance(right, Const):
            left, right = self.coerce(left, DOUBLE), self.coerce(right, DOUBLE)
        if type_of(left) == NULL:
            left, right = self.coerce(left, INT), self.coerce(right, INT)
        self._numeric(left, node)
        result = type_of(left)
        if result.kind == "DECIMAL":
            result = Type("DECIMAL", precision=38, scale=min(12, max(result.scale, 6)))
        return typed(type(node)(this=left, expression=right), result)

    def _time_arithmetic(self, node: exp.Binary, left: Bound, right: Bound) -> Bound:
        """Times and durations: time - time, time +- duration, duration +- duration, duration times a number."""
        adding, subtracting = isinstance(node, exp.Add), isinstance(node, exp.Sub)
        if adding and type_of(right) == TIMESTAMP and type_of(left) != TIMESTAMP:
            left, right = right, left
        a = type_of(left)
        if adding or subtracting:
            if isinstance(right, Const) and type_of(right) == TEXT:
                as_time = subtracting and a == TIMESTAMP and not _reads_as_duration(right.value)
                right = self.coerce(right, TIMESTAMP if as_time else DURATION)
            if isinstance(left, Const) and a == TEXT:
                left = self.coerce(left, TIMESTAMP if subtracting else DURATION)
            match (type_of(left), type_of(right)):
                case (Type("TIMESTAMP" | "DURATION"), Type("DURATION")):
                    return typed(type(node)(this=left, expression=right), type_of(left))
                case (Type("TIMESTAMP"), Type("TIMESTAMP")) if subtracting:
                    return typed(type(node)(this=left, expression=right), DURATION)
                case _:
                    pass
        elif isinstance(node, exp.Mul | exp.Div | exp.IntDiv):
            if isinstance(node, exp.Mul) and type_of(right) == DURATION:
                left, right = right, left
            if type_of(left) == DURATION and type_of(right).is_numeric:
                return typed(type(node)(this=left, expression=right), DURATION)
            if type_of(left) == type_of(right) == DURATION and isinstance(node, exp.Div):
                left, right = self.coerce(left, DOUBLE), self.coerce(right, DOUBLE)
                return typed(exp.Div(this=left, expression=right), DOUBLE)
        detail = f"cannot calculate {show(type_of(left))} with {show(type_of(right))}"
        hint = "write a duration with its unit, such as 10 SECONDS" if type_of(right).is_numeric else None
        self.fail(node, error("type_mismatch", detail=detail, hint=hint))

    def _concat(self, node: exp.Expr, scope: Scope) -> Bound:
        parts = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
        bound = [self.coerce(self.bind(part, scope), TEXT) for part in parts]
        if isinstance(node, exp.Concat):
            # PostgreSQL's CONCAT skips NULL, || does not.
            empty = constant("", TEXT)
            bound = [typed(exp.Coalesce(this=b, expressions=[empty.copy()]), TEXT) for b in bound]
        return typed(exp.Concat(expressions=bound, safe=False, coalesce=False), TEXT)

    # -- choices, casts, functions

    def _case(self, node: exp.Case, scope: Scope) -> Bound:
        conditions, results = [], []
        for branch in node.args["ifs"]:
            test = branch.this
            if node.this is not None:
                test = exp.EQ(this=node.this.copy(), expression=test)
            conditions.append(self.predicate(test, scope, "WHEN"))
            results.append(self.bind(branch.args["true"], scope))
        default = node.args.get("default")
        results.append(self.bind(default, scope) if default is not None else constant(None, NULL, node))
        results = self.unify(results, node, "mix")
        ifs = [exp.If(this=c, true=r) for c, r in zip(conditions, results[:-1], strict=True)]
        return typed(exp.Case(ifs=ifs, default=results[-1]), type_of(results[-1]))

    def _if(self, node: exp.If, scope: Scope) -> Bound:
        default = node.args.get("false") or exp.Null()
        return self._case(exp.Case(ifs=[exp.If(this=node.this, true=node.args["true"])], default=default), scope)

    def _cast(self, node: exp.Cast, scope: Scope) -> Bound:
        try:
            target = values.type_of_cast(node.to)
        except PenstockError as failure:
            self.fail(node.to if span_of(node.to) else node, failure)
        value = self._cast_operand(node.this, scope, target or TIMESTAMP)
        if target is None:
            day = self.coerce(value, TIMESTAMP)
            return typed(exp.TimestampTrunc(this=day, unit=exp.var("DAY")), TIMESTAMP)
        if isinstance(value, Const) and (value.meta.get("loose") or value.value is None):
            return self.coerce(value, target) if type_of(value) in (TEXT, NULL) else self._explicit(value, target)
        return self._explicit(value, target)

    def _cast_operand(self, node: exp.Expr, scope: Scope, target: Type) -> Bound:
        """What is cast. A function nobody knows the type of may stand here, because the cast says it."""
        inner = node.unnest() if isinstance(node, exp.Paren) else node
        if isinstance(inner, exp.Anonymous) and not self._known(inner):
            bound = exp.Anonymous(this=inner.name, expressions=[self.bind(e, scope) for e in inner.expressions])
            return typed(bound, target)
        return self.bind(node, scope)

    def _explicit(self, value: Bound, target: Type) -> Bound:
        if type_of(value) == target:
            return value
        widened = target == DOUBLE or (target == BIGINT and type_of(value) == INT)
        if isinstance(value, Const) and type_of(value).is_numeric and widened:
            return self.coerce(value, target)
        if DURATION in (type_of(value), target) and target not in (BIGINT, DURATION):
            value = typed(exp.Paren(this=value), BIGINT)
        return typed(exp.Cast(this=value, to=exp.DataType(this=exp.DType.UNKNOWN)), target)

    def _extract(self, node: exp.Extract, scope: Scope) -> Bound:
        value = self.bind(node.expression, scope)
        part = node.this.name.upper()
        if part == "EPOCH" and type_of(value) == DURATION:
            seconds = constant(1e6, DOUBLE)
            return typed(exp.Div(this=self._explicit(value, DOUBLE), expression=seconds), DOUBLE)
        value = self._argument(value, TIMESTAMP, node)
        known = ("EPOCH", "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "HOUR", "MINUTE", "SECOND")
        if part not in known:
            hint = suggest(part, known) or "parts are " + ", ".join(known)
            self.fail(node.expression, error("not_supported", feature=f"EXTRACT({part})", hint=hint))
        type_ = DOUBLE if part in ("EPOCH", "SECOND") else INT
        return typed(exp.Extract(this=exp.var(part), expression=value), type_)

    def _bracket(self, node: exp.Bracket, scope: Scope) -> Bound:
        value = self.bind(node.this, scope)
        if type_of(value).kind != "ARRAY" or len(node.expressions) != 1 or type_of(value).element is None:
            self.fail(node, error("type_mismatch", detail=f"{show(type_of(value))} has no elements"))
        index = self.coerce(self.bind(node.expressions[0], scope), INT)
        # sqlglot shifted the index to count from 0, as Spark's [] does.
        return typed(exp.Bracket(this=value, expressions=[index]), type_of(value).element or NULL)

    def _window(self, node: exp.Window, scope: Scope) -> Bound:
        bound = node.copy()
        inner = self.bind(node.this, scope)
        bound.set("this", inner)
        bound.set("partition_by", [self.bind(e, scope) for e in node.args.get("partition_by") or []])
        order = node.args.get("order")
        if order is not None:
            bound.set("order", exp.Order(expressions=[self.ordered(e, scope) for e in order.expressions]))
        return typed(bound, type_of(inner))

    def ordered(self, node: exp.Expr, scope: Scope) -> exp.Expr:
        if not isinstance(node, exp.Ordered):
            return exp.Ordered(this=self.bind(node, scope), desc=False, nulls_first=False)
        bound = exp.Ordered(this=self.bind(node.this, scope), desc=bool(node.args.get("desc")))
        bound.set("nulls_first", node.args.get("nulls_first"))
        return bound

    def _filter(self, node: exp.Filter, scope: Scope) -> Bound:
        inner = self.bind(node.this, scope)
        condition = self.predicate(node.expression.this, scope, "FILTER")
        return typed(exp.Filter(this=inner, expression=exp.Where(this=condition)), type_of(inner))

    def _within_group(self, node: exp.WithinGroup, scope: Scope) -> Bound:
        inner = self.bind(node.this, scope)
        order = exp.Order(expressions=[self.ordered(e, scope) for e in node.expression.expressions])
        return typed(exp.WithinGroup(this=inner, expression=order), type_of(inner))

    def _count(self, node: exp.Count, scope: Scope) -> Bound:
        target = node.this
        if target is None or isinstance(target, exp.Star):
            return typed(exp.Count(this=exp.Star(), big_int=True), BIGINT)
        if isinstance(target, exp.Distinct):
            inner: exp.Expr = exp.Distinct(expressions=[self.bind(e, scope) for e in target.expressions])
        else:
            inner = self.bind(target, scope)
        return typed(exp.Count(this=inner, big_int=True), BIGINT)

    def _function(self, node: exp.Expr, scope: Scope) -> Bound:
        rule = RULES.get(type(node))
        bound = node.copy()
        arguments: list[tuple[str, int | None, Bound]] = []
        for key, value in node.args.items():
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if _is_value(item):
                        arguments.append((key, index, self.bind(item, scope)))
            elif isinstance(value, exp.Distinct):
                inner = [self.bind(e, scope) for e in value.expressions]
                bound.set(key, exp.Distinct(expressions=inner))
                arguments.append((key + "/distinct", 0, inner[0]))
            elif isinstance(value, exp.Order):
                ordered = [self.ordered(e, scope) for e in value.expressions]
                bound.set(key, exp.Order(this=self.bind(value.this, scope), expressions=ordered))
            elif _is_value(value):
                arguments.append((key, None, self.bind(value, scope)))
        nodes = [argument for _, _, argument in arguments]
        result = stated_type(node) if rule is None else None
        if rule is not None:
            nodes, result = self._apply(rule, nodes, node)
        if result is None:
            hint = "give it a type: CAST(" + sql_of(node) + " AS DOUBLE)"
            self.fail(node, error("not_supported", feature=f"the function {_name(node)}", hint=hint))
        for (key, place, _), argument in zip(arguments, nodes, strict=True):
            if key.endswith("/distinct"):
                bound.args[key.removesuffix("/distinct")].set("expressions", [argument])
            elif place is None:
                bound.set(key, argument)
            else:
                items = list(bound.args[key])
                items[place] = argument
                bound.set(key, items)
        return typed(bound, result)

    def _apply(self, rule: Rule, nodes: list[Bound], at: exp.Expr) -> tuple[list[Bound], Type]:
        if "common" in rule.arguments:
            nodes = self.unify(nodes, at, "mix")
        else:
            for index, node in enumerate(nodes):
                wanted = rule.arguments[min(index, len(rule.arguments) - 1)] if rule.arguments else None
                nodes[index] = self._argument(node, wanted, at)
        types = [type_of(node) for node in nodes]
        return nodes, rule.result if isinstance(rule.result, Type) else rule.result(types or [NULL])

    def _argument(self, node: Bound, wanted: Type | str | None, at: exp.Expr) -> Bound:
        found = type_of(node)
        if wanted is None or found == wanted:
            return self.coerce(node, INT) if found == NULL else node
        if wanted in ("number", "real"):
            if found == NULL or (wanted == "real" and found.kind == "DECIMAL"):
                return self.coerce(node, DOUBLE)
            if not found.is_numeric and found != DURATION:
                where = node if span_of(node) is not None else at
                detail = f"{_name(at)} needs a number, this is {show(found)}"
                self.fail(where, error("type_mismatch", detail=detail))
            return node
        assert isinstance(wanted, Type)
        if not (isinstance(node, Const) and (node.meta.get("loose") or found == NULL)) and meet(found, wanted) is None:
            where = node if span_of(node) is not None else at
            self.fail(where, error("type_mismatch", detail=f"{_name(at)} needs {wanted}, this is {show(found)}"))
        return self.coerce(node, wanted)

    def _known(self, node: exp.Anonymous) -> bool:
        return node.name.lower() in self.functions or node.name.lower() in SPARK_FUNCTIONS

    def _anonymous(self, node: exp.Anonymous, scope: Scope) -> Bound:
        name = node.name.lower()
        arguments = [self.bind(e, scope) for e in node.expressions]
        function = self.functions.get(name)
        if function is not None:
            return self._user_call(function, arguments, node)
        rule = SPARK_FUNCTIONS.get(name)
        if rule is not None:
            arguments, result = self._apply(rule, arguments, node)
            bound = exp.Anonymous(this=name, expressions=arguments)
            bound.meta["aggregate"] = name in SPARK_AGGREGATES
            return typed(bound, result)
        if name.startswith("approx_") or name in ("slide", "latch", "tumble"):
            hint = "TUMBLE(1 MINUTE) can stand in GROUP BY" if name == "tumble" else "use the exact aggregate for now"
            self.fail(node, error("not_supported", feature=f"{name.upper()} here", hint=hint))
        known = [*self.functions, *SPARK_FUNCTIONS, *(k.sql_name().lower() for k in RULES if issubclass(k, exp.Func))]
        hint = suggest(name, known) or f"if Spark has it, say its type: CAST({name}(...) AS DOUBLE)"
        self.fail(node, error("function_not_found", function=name, hint=hint))

    def _user_call(self, function: Function, arguments: list[Bound], at: exp.Expr) -> Bound:
        self.used_functions.add(function.name)
        if len(arguments) != len(function.parameters):
            takes = ", ".join(f"{p.name} {p.type}" for p in function.parameters)
            detail = f'function "{function.name}" takes {len(function.parameters)} arguments, {len(arguments)} given'
            self.fail(at, error("type_mismatch", detail=detail, hint=f"{function.name}({takes})"))
        bound = []
        for parameter, argument in zip(function.parameters, arguments, strict=True):
            loose = isinstance(argument, Const) and (argument.meta.get("loose") or argument.value is None)
            if not loose and meet(external(type_of(argument)), parameter.type) is None:
                where = argument if span_of(argument) is not None else at
                detail = f'"{parameter.name}" of {function.name} is {parameter.type}, this is {show(type_of(argument))}'
                self.fail(where, error("type_mismatch", detail=detail))
            bound.append(self.coerce(argument, parameter.type))
        call = exp.Anonymous(this=function.name, expressions=bound)
        call.meta["user"] = True
        return typed(call, function.returns)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate (not of a ranking function)."""
    if type(node) in RANKING:
        return False
    return type(node) in AGGREGATES or isinstance(node, exp.AggFunc) or bool(node.meta.get("aggregate"))


def _is_value(item: Any) -> bool:
    return isinstance(item, exp.Expr) and not isinstance(
        item, exp.DataType | exp.Var | exp.Identifier | exp.Order | exp.Distinct | exp.Where
    )


def _reads_as_duration(text: str) -> bool:
    try:
        duration_us(text)
    except PenstockError:
        return False
    return True


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else _words(node)


def _words(node: exp.Expr) -> str:
    return type(node).__name__


_METHODS: dict[type, Callable[..., Bound]] = {
    Const: ExpressionBinder._bound,
    exp.Column: ExpressionBinder._column,
    exp.Dot: ExpressionBinder._dot,
    exp.Literal: ExpressionBinder._literal,
    exp.Null: ExpressionBinder._null,
    exp.Boolean: ExpressionBinder._boolean,
    exp.ByteString: ExpressionBinder._bytes,
    exp.HexString: ExpressionBinder._bytes,
    exp.RawString: ExpressionBinder._bytes,
    Duration: ExpressionBinder._duration,
    exp.Interval: ExpressionBinder._interval,
    exp.CurrentTimestamp: ExpressionBinder._now,
    exp.Localtimestamp: ExpressionBinder._now,
    exp.Paren: ExpressionBinder._paren,
    exp.And: ExpressionBinder._connector,
    exp.Or: ExpressionBinder._connector,
    exp.Not: ExpressionBinder._not,
    **dict.fromkeys(_COMPARISONS, ExpressionBinder._comparison),
    **dict.fromkeys(_ARITHMETIC, ExpressionBinder._arithmetic),
    exp.Between: ExpressionBinder._between,
    exp.In: ExpressionBinder._in,
    exp.Is: ExpressionBinder._is,
    exp.Like: ExpressionBinder._like,
    exp.ILike: ExpressionBinder._like,
    exp.Escape: ExpressionBinder._escape,
    exp.Exists: ExpressionBinder._exists,
    exp.Subquery: ExpressionBinder._scalar_subquery,
    exp.Select: ExpressionBinder._scalar_subquery,
    exp.Neg: ExpressionBinder._neg,
    exp.DPipe: ExpressionBinder._concat,
    exp.Concat: ExpressionBinder._concat,
    exp.Case: ExpressionBinder._case,
    exp.If: ExpressionBinder._if,
    exp.Cast: ExpressionBinder._cast,
    exp.Extract: ExpressionBinder._extract,
    exp.Bracket: ExpressionBinder._bracket,
    exp.Window: ExpressionBinder._window,
    exp.Filter: ExpressionBinder._filter,
    exp.WithinGroup: ExpressionBinder._within_group,
    exp.Count: ExpressionBinder._count,
    exp.Anonymous: ExpressionBinder._anonymous,
}
