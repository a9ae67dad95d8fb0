"""Calls: casts, functions of the system and of users, aggregates and window functions."""

from __future__ import annotations

from typing import Any, NoReturn

from sqlglot import exp

from penstock.catalog.model import Function
from penstock.errors import error, suggest
from penstock.expr.windows import FOREVER
from penstock.functions.regular_expressions import FUNCTIONS as TEXT_FUNCTIONS
from penstock.functions.regular_expressions import check_pattern
from penstock.functions.times import UNITS
from penstock.operators.mining.registry import FUNCTIONS as MINING
from penstock.sql import values
from penstock.sql.binding.approximate import APPROXIMATE, ERROR_OF, bind_approximate
from penstock.sql.binding.coercion import (
    AGGREGATES,
    RANKING,
    RULES,
    SPARK_AGGREGATES,
    SPARK_FUNCTIONS,
    Bound,
    Coercion,
    Rule,
    missing_hint,
    name_of,
)
from penstock.sql.binding.mining import bind_mining, bind_unnest
from penstock.sql.functions import CALLS
from penstock.sql.nodes import Const, Duration, OwnWindow, Resample
from penstock.sql.patterns import spark_format
from penstock.sql.positions import placed, point, span_of
from penstock.sql.scope import Scope
from penstock.sql.values import DURATION, NULL, constant, external, meet, show, type_of, typed
from penstock.types import BIGINT, DOUBLE, INT, TEXT, TIMESTAMP, Type

# Functions that PostgreSQL and other stream databases have, with what to write instead.
_NOT_YET = {
    "age": "subtract times: NOW() - ts is a duration; EXTRACT(EPOCH FROM NOW() - ts) is seconds",
}
_IN_GROUP_BY = {
    "tumble": "TUMBLE(1 MINUTE)",
    "slide": "SLIDE(1 MINUTE, 10 SECONDS)",
    "session": "SESSION(30 SECONDS)",
    "landmark": "LANDMARK (event = 'shift')",
    "latch": "LATCH",
}


class Calls(Coercion):
    """Binds whatever looks like a function."""

    def _cast(self, node: exp.Cast, scope: Scope) -> Bound:
        with self.pointing(node.to, node):
            target = values.type_of_cast(node.to)
        value = self.bind(node.this, scope)
        if target is None:
            day = self.coerce(value, TIMESTAMP)
            return typed(exp.TimestampTrunc(this=day, unit=exp.var("DAY")), TIMESTAMP)
        if isinstance(value, Const) and (value.meta.get("loose") or value.value is None):
            return self.coerce(value, target) if type_of(value) in (TEXT, NULL) else self._explicit(value, target)
        return self._explicit(value, target)

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

    def _window(self, node: exp.Window, scope: Scope) -> Bound:
        bound = node.copy()
        inner = self.bind(node.this, scope)
        bound.set("this", inner)
        self.bind_over(bound, scope)
        return typed(bound, type_of(inner))

    def bind_over(self, window: exp.Expr, scope: Scope) -> None:
        """Bind what stands in OVER (...) or WINDOW w AS (...), in place."""
        window.set("partition_by", [self.bind(e, scope) for e in window.args.get("partition_by") or []])
        order = window.args.get("order")
        if order is not None:
            window.set("order", exp.Order(expressions=[self.ordered(e, scope) for e in order.expressions]))
        # ROWS BETWEEN goes to Spark as it is, so it has only words and whole numbers.
        frame = window.args.get("spec")
        for edge in (frame.args.get("start"), frame.args.get("end")) if frame is not None else ():
            if isinstance(edge, exp.Expr) and not (isinstance(edge, exp.Literal) and edge.is_int):
                hint = "write ROWS BETWEEN 5 PRECEDING AND CURRENT ROW"
                self.fail(edge, error("not_supported", feature="a frame without whole numbers", hint=hint))

    def ordered(self, node: exp.Expr, scope: Scope, meaning: Bound | None = None) -> exp.Expr:
        """An item of ORDER BY. `meaning`: what it is about, where that is known."""
        if not isinstance(node, exp.Ordered):
            node = exp.Ordered(this=node, nulls_first=False)
        bound = exp.Ordered(this=meaning or self.bind(node.this, scope), desc=bool(node.args.get("desc")))
        bound.set("nulls_first", node.args.get("nulls_first"))
        return bound

    def _filter(self, node: exp.Filter, scope: Scope) -> Bound:
        inner = self.bind(node.this, scope)
        condition = self.predicate(node.expression.this, scope, "FILTER")
        return typed(exp.Filter(this=inner, expression=exp.Where(this=condition)), type_of(inner))

    def _within_group(self, node: exp.WithinGroup, scope: Scope) -> Bound:
        if isinstance(node.this, exp.Mode) and node.this.this is None and len(node.expression.expressions) == 1:
            key = self.ordered(node.expression.expressions[0], scope)
            return typed(exp.WithinGroup(this=exp.Mode(), expression=exp.Order(expressions=[key])), type_of(key.this))
        inner = self.bind(node.this, scope)
        if isinstance(inner, OwnWindow):
            # The window is that of the whole call, however it is written.
            whole = exp.WithinGroup(this=node.this.this, expression=node.expression)
            return windowed(self._within_group(whole, scope), inner.us, node.this.this)
        keys = [self.ordered(e, scope) for e in node.expression.expressions]
        if isinstance(inner, exp.PercentileCont) and isinstance(inner.this, Const) and len(keys) == 1:
            return self._percentile_cont(inner.this, keys[0], node)
        if isinstance(inner, exp.PercentileDisc) and isinstance(inner.this, Const) and len(keys) == 1:
            self._check_fraction([keys[0].this, inner.this], node)
        return typed(exp.WithinGroup(this=inner, expression=exp.Order(expressions=keys)), type_of(inner))

    def _percentile_cont(self, fraction: Const, key: exp.Expr, at: exp.Expr) -> Bound:
        """PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x) is PERCENTILE(x, p), which is exact in Spark, too."""
        self._check_fraction([key.this, fraction], at)
        place = 1 - fraction.value if key.args.get("desc") else fraction.value
        arguments, result = self._apply(SPARK_FUNCTIONS["percentile"], [key.this, constant(place, DOUBLE)], at)
        bound = exp.Anonymous(this="percentile", expressions=arguments)
        bound.meta["aggregate"] = True
        return typed(bound, result)

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
        if rule is None:
            self.refuse_function(node, name_of(node))
        if isinstance(node, exp.TimestampTrunc):
            self._check_unit(node)
        bound = node.copy()
        arguments: list[tuple[str, int | None, Bound]] = []
        for key, value in node.args.items():
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if not _is_value(item):
                        self.fail(node, error("not_supported", feature=f"this argument of {name_of(node)}"))
                    arguments.append((key, index, self.bind(item, scope)))
            elif isinstance(value, exp.Distinct) and not is_aggregate(node):
                self.fail(value, error("syntax_error", detail="DISTINCT belongs into an aggregate"))
            elif isinstance(value, exp.Distinct):
                inner = [self.bind(e, scope) for e in value.expressions]
                bound.set(key, exp.Distinct(expressions=inner))
                arguments.append((key + "/distinct", 0, inner[0]))
            elif isinstance(value, exp.Order):
                ordered = [self.ordered(e, scope) for e in value.expressions]
                bound.set(key, exp.Order(this=self.bind(value.this, scope), expressions=ordered))
            elif _is_value(value):
                arguments.append((key, None, self.bind(value, scope)))
            elif isinstance(value, exp.Expr) and not isinstance(node, exp.TimestampTrunc):
                # Only what is bound may go on to Spark; the unit of DATE_TRUNC has been checked.
                self.fail(node, error("not_supported", feature=f"this argument of {name_of(node)}"))
        nodes = [argument for _, _, argument in arguments]
        if rule.arguments and rule.arguments[0] is not None and not nodes:
            self.fail(node, error("syntax_error", detail=f"{name_of(node)} needs an argument"))
        if rule.most is not None and len(nodes) > rule.most and not is_aggregate(node):
            detail = f"{name_of(node)} takes at most {rule.most} arguments, {len(nodes)} given"
            self.fail(node, error("syntax_error", detail=detail))
        nodes, result = self._apply(rule, nodes, node)
        if self._unknown_digits(name_of(node), nodes, node):
            return constant(None, result, node)
        if isinstance(node, exp.RegexpLike | exp.RegexpILike):
            pattern = self._pattern(nodes[1], node, ignore_case=isinstance(node, exp.RegexpILike))
            return typed(exp.RegexpLike(this=nodes[0], expression=pattern), result)
        if isinstance(node, exp.StrToTime):
            nodes[1] = self._time_format(nodes[1], node, reading=True)
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

    def _unknown_digits(self, name: str, arguments: list[Bound], at: exp.Expr) -> bool:
        """Whether digits are NULL. Neither Spark nor the kernels round to digits that differ from row to row."""
        if name not in ("round", "bround", "trunc") or len(arguments) < 2:
            return False
        if not isinstance(arguments[1], Const):
            self.fail(at, error("not_supported", feature=f"{name.upper()} to digits that are no constant"))
        return arguments[1].value is None

    def _time_format(self, template: Bound, at: exp.Expr, *, reading: bool = False) -> Bound:
        if not isinstance(template, Const):
            name = "TO_TIMESTAMP" if reading else "TO_CHAR"
            self.fail(at, error("not_supported", feature=f"{name} with a template that is no constant"))
        if template.value is None:
            return template
        with self.pointing(template):
            return constant(spark_format(template.value, reading=reading), TEXT, template)

    def _regular(self, name: str, arguments: list[Bound], result: Type, at: exp.Expr) -> Bound:
        """A function of regular expressions, with the arguments that a call may leave out."""
        flags = ""
        if name == "regexp_replace" and len(arguments) == 4:
            flags = self._flags(arguments.pop(), at)
            name = "regexp_replace_all" if "g" in flags else name
        arguments[1] = self._pattern(arguments[1], at, ignore_case="i" in flags)
        if name in ("regexp_extract", "regexp_extract_all", "split") and len(arguments) == 2:
            arguments.append(constant(-1 if name == "split" else 1, INT))
        if name.startswith("regexp_extract"):
            self._check_group(arguments[1], arguments[2], at)
        return typed(exp.Anonymous(this=name, expressions=arguments), result)

    def _pattern(self, pattern: Bound, at: exp.Expr, *, ignore_case: bool) -> Bound:
        """A regular expression. A constant that RE2 cannot read is refused; one that comes from data is NULL then."""
        if not isinstance(pattern, Const):
            parts = [constant("(?i)", TEXT), pattern]
            return typed(exp.Concat(expressions=parts, safe=False, coalesce=False), TEXT) if ignore_case else pattern
        if pattern.value is None:
            return pattern
        with self.pointing(pattern, at):
            check_pattern(pattern.value)
        return constant(f"(?i){pattern.value}", TEXT, pattern) if ignore_case else pattern

    def _check_group(self, pattern: Bound, group: Bound, at: exp.Expr) -> None:
        if not isinstance(pattern, Const) or not isinstance(group, Const) or None in (pattern.value, group.value):
            return
        groups = check_pattern(pattern.value).groups
        if not 0 <= group.value <= min(groups, 9):
            detail = f"the pattern '{pattern.value}' has {groups} groups, and none with the number {group.value}"
            self.fail(at, error("syntax_error", detail=detail, hint="0 is the whole match; groups are 1 to 9"))

    def _flags(self, flags: Bound, at: exp.Expr) -> str:
        """The flags of regexp_replace: g replaces all matches, i ignores case."""
        if not isinstance(flags, Const) or flags.value is None or not set(flags.value) <= set("gi"):
            hint = "flags are 'g' (replace all matches), 'i' (ignore case) or both, as a constant"
            self.fail(at, error("not_supported", feature="these flags of regexp_replace", hint=hint))
        return str(flags.value)

    def refuse_function(self, node: exp.Expr, name: str) -> NoReturn:
        """Fail because a function is neither on the list nor the user's own."""
        self.fail(node, error("function_not_found", function=name, hint=missing_hint(name, self.functions)))

    def _check_unit(self, node: exp.TimestampTrunc) -> None:
        unit = node.text("unit").upper()
        if unit not in UNITS or node.args.get("zone") is not None:
            hint = suggest(unit, sorted(UNITS)) or "units are " + ", ".join(sorted(UNITS))
            self.fail(node, error("not_supported", feature=f"DATE_TRUNC to {unit}", hint=hint))

    def _count_arguments(self, name: str, rule: Rule, node: exp.Anonymous) -> None:
        given = len(node.expressions)
        if given < rule.least or (rule.most is not None and given > rule.most):
            arguments = CALLS[name].arguments
            detail = f"{name} takes other arguments than {given}" if arguments else f"{name} takes no arguments"
            self.fail(node, error("syntax_error", detail=detail, hint=f"write {name}({arguments})"))

    def _anonymous(self, node: exp.Anonymous, scope: Scope) -> Bound:
        name = node.name.lower()
        function = self.functions.get(name)
        own = written_inside(node, self.text) if function is None else None
        if own is not None:
            return self.bind(own, scope)
        if function is None and (name in APPROXIMATE or name == ERROR_OF):
            return bind_approximate(self, node, scope)
        if function is None and name in MINING:
            return bind_mining(self, node, scope)
        if function is None and name == "unnest":
            return bind_unnest(self, node, scope)
        if function is None and name == RESAMPLE:
            return bind_resample(self, node, scope)
        if function is None and name in _NOT_YET:
            self.fail(node, error("not_supported", feature=f"{name.upper()}()", hint=_NOT_YET[name]))
        arguments = [self.bind(e, scope) for e in node.expressions]
        if function is not None:
            return self._user_call(function, arguments, node)
        rule = SPARK_FUNCTIONS.get(name)
        if rule is not None:
            if name != "percentile":
                self._count_arguments(name, rule, node)
            arguments, result = self._apply(rule, arguments, node)
            if name == "percentile":
                self._check_fraction(arguments, node)
            if self._unknown_digits(name, arguments, node):
                return constant(None, result, node)
            if name == "to_char":
                arguments[1] = self._time_format(arguments[1], node)
            if name in TEXT_FUNCTIONS:
                return self._regular(name, arguments, result, node)
            bound = exp.Anonymous(this=name, expressions=arguments)
            bound.meta["aggregate"] = name in SPARK_AGGREGATES
            return typed(bound, result)
        if name in _IN_GROUP_BY:
            hint = f"{_IN_GROUP_BY[name]} can stand in GROUP BY"
            self.fail(node, error("not_supported", feature=f"{name.upper()} here", hint=hint))
        self.refuse_function(node, name)

    def _check_fraction(self, arguments: list[Bound], at: exp.Expr) -> None:
        if len(arguments) < 2:
            detail, hint = "PERCENTILE takes a value and a fraction", "write PERCENTILE(x, 0.95)"
            self.fail(at, error("syntax_error", detail=detail, hint=hint))
        fraction = arguments[1]
        if isinstance(fraction, Const) and not (fraction.value is not None and 0 <= fraction.value <= 1):
            self.fail(fraction, error("type_mismatch", detail="a percentile's fraction is between 0 and 1"), at)

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
                detail = f'"{parameter.name}" of {function.name} is {parameter.type}, this is {show(type_of(argument))}'
                self.fail(argument, error("type_mismatch", detail=detail), at)
            bound.append(self.coerce(argument, parameter.type))
        call = exp.Anonymous(this=function.name, expressions=bound)
        if function.state is None:
            call.meta["user"] = True
        else:
            call.meta.update(aggregate=True, code=function)
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


def written_inside(call: exp.Anonymous, text: str) -> OwnWindow | None:
    """The window of an aggregate that sqlglot does not know as one; None where it has none.

    No argument of an aggregate is a duration, so the last one can mean nothing else.
    """
    name = call.name.lower()
    given = call.expressions[-1] if len(call.expressions) > 1 else None
    if not isinstance(given, Duration) or not (name in SPARK_AGGREGATES or name in APPROXIMATE):
        return None
    if given.us <= 0:
        detail = "an aggregate's window is longer than nothing"
        raise point(error("invalid_window", detail=detail), text, span_of(given))
    plain = call.copy()
    plain.set("expressions", plain.expressions[:-1])
    return OwnWindow(this=plain, us=given.us)


def windowed(aggregate: exp.Expr, us: int, at: exp.Expr) -> exp.Expr:
    """A bound aggregate over a window of its own; errors point at where it was written."""
    return typed(placed(OwnWindow(this=aggregate, us=us), at), type_of(aggregate))


RESAMPLE = "resample"
METHODS = ("previous", "linear", "mean")
_EXAMPLE = "write RESAMPLE(p.ppm, 30 SECONDS, LINEAR)"


def bind_resample(binder: Coercion, node: exp.Anonymous, scope: Scope) -> exp.Expr:
    """The call with its value bound. Which stream gives the times is known once the whole SELECT is."""
    if len(node.expressions) not in (2, 3):
        detail = "RESAMPLE takes a value, a duration and how: PREVIOUS, LINEAR or MEAN"
        binder.fail(node, error("syntax_error", detail=detail, hint=_EXAMPLE))
    value = binder.bind(node.expressions[0], scope)
    within = binder.coerce(binder.bind(node.expressions[1], scope), DURATION)
    if not isinstance(within, Const) or within.value is None or within.value <= 0:
        binder.fail(node.expressions[1], error("syntax_error", detail="RESAMPLE needs a duration", hint=_EXAMPLE))
    if within.value >= FOREVER // 2:  # so far from a time there are none
        binder.fail(node.expressions[1], error("syntax_error", detail="this duration is too long", hint=_EXAMPLE))
    method = _method(binder, node.expressions[2]) if len(node.expressions) == 3 else METHODS[0]
    if method != "previous" and type_of(value).kind not in ("INT", "BIGINT", "DOUBLE", "DECIMAL"):
        detail = f"{method.upper()} works on numbers, this is {show(type_of(value))}"
        binder.fail(node.expressions[0], error("type_mismatch", detail=detail, hint="PREVIOUS takes any value"))
    for source in scope.sources:
        source.needs_stream = source.needs_stream or source.kind == "sensors"
    bound = placed(Resample(this=value, us=within.value, method=method), node)
    return typed(bound, type_of(value) if method == "previous" else DOUBLE)


def _method(binder: Coercion, node: exp.Expr) -> str:
    """A word, as it is or in quotes."""
    plain = isinstance(node, exp.Column) and len(node.parts) == 1
    word = node.name.lower() if plain or isinstance(node, exp.Literal) else ""
    if word not in METHODS:
        hint = suggest(word, METHODS) or "ways to resample are PREVIOUS, LINEAR and MEAN"
        binder.fail(node, error("syntax_error", detail=f'RESAMPLE does not know "{word}"', hint=hint))
    return word
