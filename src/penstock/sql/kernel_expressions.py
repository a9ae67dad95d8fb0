"""Bound tree -> kernel expression (operators.expr), for queries that run in the shared pass.

Raises `NotCovered` with plain words for whatever no kernel evaluates; such a query runs as Spark SQL.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.expr.expression import Call, Column, Expr, Literal, UserCall
from penstock.functions import OPERATIONS
from penstock.functions.regular_expressions import FUNCTIONS as TEXT_FUNCTIONS
from penstock.functions.times import UNITS
from penstock.sql.nodes import SIMILAR, Const, Hold, SampleCondition
from penstock.sql.values import DURATION, external, type_of
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT, TIMESTAMP, Type


class NotCovered(Exception):
    """Why an expression cannot run in the shared pass."""


_BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.NullSafeEQ: "same",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.Add: "add",
    exp.Sub: "sub",
    exp.Mul: "mul",
    exp.Div: "div",
    exp.Mod: "mod",
    exp.Pow: "power",
    exp.Nullif: "nullif",
    exp.Like: "like",
    exp.ILike: "ilike",
}
_OF_NUMBERS = (exp.Neg, exp.Not, exp.Abs, exp.Floor, exp.Ceil, exp.Sqrt, exp.Exp, exp.Ln, exp.Sign)
_OF_TEXTS = (exp.Lower, exp.Upper, exp.Length)
_UNARY: dict[type[exp.Expr], str] = {kind: kind.__name__.lower() for kind in (*_OF_NUMBERS, *_OF_TEXTS)}
_MANY: dict[type[exp.Expr], str] = {exp.Greatest: "greatest", exp.Least: "least", exp.Coalesce: "coalesce"}
# Functions of Spark for what EXTRACT says too. SECOND() has no fraction, and DAYOFWEEK() counts from 1.
_PARTS: dict[type[exp.Expr], str] = {
    **{kind: kind.__name__.upper() for kind in (exp.Year, exp.Quarter, exp.Month, exp.Day, exp.Hour, exp.Minute)},
    exp.WeekOfYear: "WEEK",
    exp.DayOfMonth: "DAY",
    exp.DayOfYear: "DOY",
}
# Calls by name that kernels know, with the number of arguments that they take.
_NAMED: dict[str, tuple[int, ...]] = {"log": (1,), "div": (2,), "trunc": (1, 2)}
_PLAIN_ARGUMENTS = {"this", "expression", "expressions"}


def lower(node: exp.Expr) -> Expr:
    """The expression as kernels evaluate it."""
    match node:
        case Const():
            return Literal(node.value, external(type_of(node)))
        case exp.Column():
            return Column(node.name, type_of(node), node.meta.get("origin") == "static")
        case exp.Paren():
            return lower(node.this)
        case exp.And() | exp.Or():
            return _connector(node)
        case exp.Is():
            return _is(node)
        case exp.In() if not node.args.get("query"):
            return Call("in", (lower(node.this), *map(lower, node.expressions)), BOOLEAN)
        case exp.NullSafeNEQ():
            return Call("not", (_binary(node, "same"),), BOOLEAN)
        case exp.Cast():
            return _cast(node)
        case exp.Case():
            branches = [lower(part) for branch in node.args["ifs"] for part in (branch.this, branch.args["true"])]
            return Call("case", (*branches, lower(node.args["default"])), external(type_of(node)))
        case exp.Concat():
            return Call("concat", tuple(map(lower, node.expressions)), TEXT)
        case exp.Round():
            return Call("round", _arguments(node.this, node.args.get("decimals")), type_of(node))
        case exp.Trim() if not node.expression and not node.args.get("position"):
            return Call("trim", (lower(node.this),), TEXT)
        case exp.Substring():
            return Call("substring", _arguments(node.this, node.args.get("start"), node.args.get("length")), TEXT)
        case exp.Extract():
            return _extract(node.this.name, node.expression, external(type_of(node)))
        case exp.TimestampTrunc() if node.text("unit") in UNITS and not node.args.get("zone"):
            return Call("date_trunc", (Literal(node.text("unit"), TEXT), lower(node.this)), TIMESTAMP)
        case exp.Dot():
            name = Literal(node.expression.name, TEXT)
            return Call("get_field", (lower(node.this), name), type_of(node))
        case exp.Anonymous() if node.meta.get("user"):
            return UserCall(node.name, tuple(map(lower, node.expressions)), type_of(node))
        case exp.Anonymous() if node.name == SIMILAR:
            return Call("matches", _arguments(*node.expressions), BOOLEAN)
        case exp.RegexpLike():
            return Call("regexp_like", _arguments(node.this, node.expression), BOOLEAN)
        case exp.Anonymous() if node.name in TEXT_FUNCTIONS and node.name in OPERATIONS:
            return Call(node.name, _arguments(*node.expressions), external(type_of(node)))
        case exp.Anonymous() if node.name in _NAMED:
            return _named(node)
        case SampleCondition():
            numbers = (Literal(int(node.args[key]), BIGINT) for key in ("seed", "parts"))
            return Call("sampled", (lower(node.this), *numbers), BOOLEAN)
        case exp.CurrentTimestamp():
            raise NotCovered("NOW() in an expression runs as Spark SQL")
    return _simple(node)


def _simple(node: exp.Expr) -> Expr:
    kind = type(node)
    type_ = external(type_of(node)) if "penstock" in node.meta else BOOLEAN
    if kind in _BINARY:
        return _binary(node, _BINARY[kind])
    extra = [key for key, value in node.args.items() if value and key not in _PLAIN_ARGUMENTS]
    if kind in _UNARY and not extra and not node.args.get("expression"):
        return Call(_UNARY[kind], (lower(node.this),), type_)
    if kind in _PARTS and type_of(node.this) == TIMESTAMP:
        return _extract(_PARTS[kind], node.this, INT)
    if kind in _MANY:
        return Call(_MANY[kind], _arguments(node.this, *node.expressions), type_)
    raise NotCovered(f"{_described(node)} runs as Spark SQL")


_WORDS: dict[type[exp.Expr], str] = {
    exp.TimestampTrunc: "date_trunc() to this unit",
    exp.Bracket: "an array's element",
    Hold: "a condition that has to hold FOR some time, inside another one,",
}


def _described(node: exp.Expr) -> str:
    if type(node) in _WORDS:
        return _WORDS[type(node)]
    if isinstance(node, exp.Subquery | exp.Exists | exp.In):
        return "a subquery"
    if isinstance(node, exp.Window):
        return "a window function"
    if isinstance(node, exp.AggFunc) or node.meta.get("aggregate"):
        return "an aggregate"
    if isinstance(node, exp.Anonymous):
        return f"{node.name}()"
    return f"{node.sql_name().lower()}()" if isinstance(node, exp.Func) else type(node).__name__.upper()


def _arguments(*nodes: exp.Expr | None) -> tuple[Expr, ...]:
    return tuple(lower(node) for node in nodes if node is not None)


def _connector(node: exp.Expr) -> Expr:
    terms: list[Expr] = []
    inner = node
    while type(inner) is type(node):
        terms.append(lower(inner.expression))
        inner = inner.this
    operation = "and" if isinstance(node, exp.And) else "or"
    return Call(operation, (lower(inner), *reversed(terms)), BOOLEAN)


def _is(node: exp.Is) -> Expr:
    value = lower(node.this)
    missing = Call("is_null", (value,), BOOLEAN)
    if isinstance(node.expression, exp.Null):
        return missing
    known = Call("not", (missing,), BOOLEAN)
    wanted = value if node.expression.this else Call("not", (value,), BOOLEAN)
    return Call("and", (known, wanted), BOOLEAN)


def _named(node: exp.Anonymous) -> Expr:
    name, type_ = node.name, external(type_of(node))
    if len(node.expressions) not in _NAMED[name]:
        raise NotCovered(f"{name}() with {len(node.expressions)} arguments runs as Spark SQL")
    arguments = _arguments(*node.expressions)
    if name == "log":
        return Call("log10", arguments, type_)
    if name == "div":
        if type_.kind == "DECIMAL":
            raise NotCovered("arithmetic with DECIMAL runs as Spark SQL")
        quotient = Call("div", arguments, type_)
        return Call("trunc", (quotient,), type_) if type_ == DOUBLE else quotient
    return Call(name, arguments, type_)


def _extract(part: str, timestamp: exp.Expr, type_: Type) -> Expr:
    return Call("extract", (Literal(part, TEXT), lower(timestamp)), type_)


def _cast(node: exp.Cast) -> Expr:
    value = lower(node.this)
    target = external(type_of(node))
    if target == TEXT and value.type.kind in ("ARRAY", "STRUCT"):
        raise NotCovered(f"{value.type.kind} as TEXT runs as Spark SQL")
    return value if value.type == target else Call("cast", (value,), target)


def _binary(node: exp.Expr, operation: str) -> Expr:
    left, right = type_of(node.this), type_of(node.expression)
    result = external(type_of(node))
    a, b = lower(node.this), lower(node.expression)
    if operation in ("like", "ilike") and not isinstance(b, Literal):
        raise NotCovered("LIKE with a pattern that is no constant runs as Spark SQL")
    if result.kind == "DECIMAL" and operation in ("add", "sub", "mul", "div", "mod"):
        raise NotCovered("arithmetic with DECIMAL runs as Spark SQL")
    if left == TIMESTAMP and right == DURATION and operation in ("add", "sub"):
        shift = b if operation == "add" else _negated(b)
        return Call("add_us", (a, shift), TIMESTAMP)
    if left == right == TIMESTAMP and operation == "sub":
        return Call("diff_us", (a, b), BIGINT)
    if left == DURATION and operation in ("mul", "div") and b.type not in (BIGINT, INT):
        raise NotCovered("a duration times a DOUBLE runs as Spark SQL")
    if left == DURATION and b.type == INT:
        b = Literal(b.value, BIGINT) if isinstance(b, Literal) else Call("cast", (b,), BIGINT)
    return Call(operation, (a, b), result)


def _negated(value: Expr) -> Expr:
    return Literal(-value.value, BIGINT) if isinstance(value, Literal) else Call("neg", (value,), BIGINT)
