"""Bound tree -> Spark SQL. What Spark writes or computes differently from PostgreSQL is settled here.

The text has no place that is filled in later. Relations are `IDENTIFIER(:r0)` and NOW is `:now`: named parameters.
The runner hands their values to Spark beside the text (docs/decisions/0018-spark-sql-parameters.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

from penstock.errors import error
from penstock.functions.regular_expressions import FUNCTIONS as TEXT_FUNCTIONS
from penstock.functions.regular_expressions import SPARK_PREFIX, is_simple_like
from penstock.functions.samples import PARTS
from penstock.sql.binding.approximate import APPROXIMATE, ERROR, is_approximate_call
from penstock.sql.binding.coercion import RULES
from penstock.sql.bound_trees import call_of
from penstock.sql.functions import CALLS
from penstock.sql.nodes import (
    SIMILAR,
    BeginEnd,
    BeginEnds,
    Const,
    Duration,
    OwnWindow,
    SampleCondition,
    WindowEdge,
    WindowJoin,
    WindowJoins,
    WithinPercent,
)
from penstock.sql.spark.function_forms import (
    COMPARED_MAX,
    NESTED_ARRAYS,
    SHORT_TEXT,
    bounded_text,
    fill,
    spark_aggregate,
    spark_form,
)
from penstock.sql.values import DURATION, external, type_of
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT, TIMESTAMP, Type

NOW = "now"
# What Spark and sqlglot read alike inside quotes. sqlglot itself writes NUL as \0, which Spark joins with digits.
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"})

# Types of nearly every cast, as Spark writes them. For others sqlglot parses the names of two types at each cast.
_SAME_NAME = (exp.DType.BIGINT, exp.DType.BOOLEAN, exp.DType.DOUBLE, exp.DType.INT)
_CAST_NAMES = {**{kind: kind.name for kind in _SAME_NAME}, exp.DType.TEXT: "STRING"}
_CAST_OPTIONS = ("format", "action", "default")


class _Generator(SparkGenerator):
    def escape_str(self, text: str, *_: Any, **__: Any) -> str:
        return text.translate(_ESCAPES)

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        to = expression.to
        name = _CAST_NAMES.get(to.this)
        if name is None or to.expressions or safe_prefix or any(expression.args.get(k) for k in _CAST_OPTIONS):
            return str(super().cast_sql(expression, safe_prefix))
        return f"CAST({self.sql(expression, 'this')} AS {name})"


class _SparkText(Spark):
    """Spark's dialect with the few escapes that every reader of a literal agrees on."""

    Generator = _Generator


def relation_name(name: str) -> exp.Expr:
    """The view that stands for a relation, as the parameter of this name gives it."""
    return exp.Anonymous(this="IDENTIFIER", expressions=[exp.Placeholder(this=name)])


def spark_sql(query: exp.Expr) -> str:
    """The text for `spark.sql(text, args)`; `args` has a view for each relation, and NOW in microseconds.

    Every name is quoted, so that none is taken for a word of Spark's.
    """
    check_nodes(query)
    tree = translate(_without_distinct_on(_without_qualify(query.copy())))
    # sqlglot changes what it writes, and would copy it first: the tree is a copy already.
    return tree.sql(dialect=_SparkText, comments=False, normalize_functions=False, identify=True, copy=False)


def _without_distinct_on(root: exp.Expr) -> exp.Expr:
    """DISTINCT ON, which Spark lacks, as the first row of each group; ORDER BY and LIMIT stay outermost."""
    for select in list(root.find_all(exp.Select)):
        distinct = select.args.get("distinct")
        if distinct is None or distinct.args.get("on") is None:
            continue
        new = _first_of_each(select, distinct.args["on"].expressions)
        if select is root:
            root = new
        else:
            select.replace(new)
    return root


def _without_qualify(root: exp.Expr) -> exp.Expr:
    """QUALIFY, which Spark has only where nothing is aggregated, as a condition around the SELECT."""
    for select in list(root.find_all(exp.Select)):
        if select.args.get("qualify") is None:
            continue
        new = _those_qualified(select)
        if select is root:
            root = new
        else:
            select.replace(new)
    return root


def _those_qualified(select: exp.Select) -> exp.Select:
    condition = select.args["qualify"].this
    select.set("qualify", None)
    new = _chosen(select, "_qualifies", lambda _: condition.copy(), lambda qualifies: qualifies)
    new.set("distinct", select.args.get("distinct"))
    return new


def _first_of_each(select: exp.Select, keys: list[exp.Expr]) -> exp.Select:
    def rank(ordered: list[exp.Expr]) -> exp.Expr:
        return exp.Window(
            this=exp.RowNumber(),
            partition_by=[key.copy() for key in keys],
            order=exp.Order(expressions=[item.copy() for item in ordered] or [key.copy() for key in keys]),
        )

    return _chosen(select, "_rank", rank, lambda rank: exp.EQ(this=rank, expression=exp.Literal.number(1)))


def _chosen(
    select: exp.Select,
    name: str,
    value: Callable[[list[exp.Expr]], exp.Expr],
    condition: Callable[[exp.Expr], exp.Expr],
) -> exp.Select:
    """Those rows of a SELECT for which a value of this name satisfies a condition. `value` is given the items of ORDER BY."""
    inner = select.copy()
    names = [item.alias for item in inner.expressions]
    outputs = {item.alias: item.this for item in inner.expressions}
    order = inner.args.get("order")
    ordered = list(order.expressions) if order is not None else []
    for item in ordered:
        # An output's name means nothing inside OVER.
        if isinstance(item.this, exp.Column) and not item.this.table and item.this.name in outputs:
            item.set("this", outputs[item.this.name].copy())
    hidden = [exp.alias_(item.this.copy(), f"_order{i}", quoted=True) for i, item in enumerate(ordered)]
    inner.set("expressions", [*inner.expressions, *hidden, exp.alias_(value(ordered), name, quoted=True)])
    for key in ("distinct", "order", "limit", "offset"):
        inner.set(key, None)
    outer = exp.select(*(exp.column(name, quoted=True) for name in names)).from_(inner.subquery("_ranked"))
    outer = outer.where(condition(exp.column(name, quoted=True)))
    if ordered:
        again = []
        for i, item in enumerate(ordered):
            column = exp.column(f"_order{i}", quoted=True)
            flags = {"desc": item.args.get("desc"), "nulls_first": item.args.get("nulls_first")}
            again.append(exp.Ordered(this=column, **flags))
        outer.set("order", exp.Order(expressions=again))
    outer.set("limit", select.args.get("limit"))
    outer.set("offset", select.args.get("offset"))
    return outer


def translate(root: exp.Expr) -> exp.Expr:
    """Every bound node in Spark's words, leaves first."""
    nodes = list(root.walk())
    for node in nodes:
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div) and "penstock" in node.meta:
            # Operands lose their types when they are rewritten, which comes first.
            node.meta["left"], node.meta["right"] = type_of(node.this), type_of(node.expression)
        elif isinstance(node, exp.Anonymous) and node.name in NESTED_ARRAYS:
            element = type_of(node.expressions[0]).element
            node.meta["nested"] = element is not None and element.kind in ("ARRAY", "STRUCT", "BINARY")
    for node in reversed(nodes):
        new = _translated(node)
        if new is not node:
            if node is root:
                root = new
            else:
                _put(new, node)
    return root


def _put(new: exp.Expr, node: exp.Expr) -> None:
    """Replace a node. sqlglot's own way goes through all neighbours in a list, which a long IN cannot afford."""
    parent, key, index = node.parent, node.arg_key, node.index
    siblings = parent.args.get(key) if parent is not None and key is not None else None
    if isinstance(siblings, list) and index is not None and siblings[index] is node:
        siblings[index] = new
        new.parent, new.arg_key, new.index = parent, key, index
    else:
        node.replace(new)


def _translated(node: exp.Expr) -> exp.Expr:
    if isinstance(node, Const):
        return _constant(node.value, external(type_of(node)))
    if is_approximate_call(node):
        return spark_aggregate(node)
    match node:
        case exp.Anonymous() if node.meta.get("user"):
            return exp.Anonymous(this=exp.to_identifier(node.name, quoted=True), expressions=node.expressions)
        case exp.Anonymous() if node.name in TEXT_FUNCTIONS and "penstock" in node.meta:
            return _text_function(node.name, *node.expressions)
        case exp.Anonymous() if node.name in CALLS and "penstock" in node.meta:
            return _listed(node)
        case exp.Anonymous() if node.name == SIMILAR:
            return _text_function("regexp_like", *node.expressions)
        case exp.Substring():
            arguments = [node.this, node.args.get("start"), node.args.get("length")]
            given = [a for a in arguments if a is not None]
            form = None if _is_plain("substring", given) else spark_form("substring", given, TEXT)
            return form or node
        case exp.StrToTime():
            return call_of("to_timestamp", node.this, node.args["format"])
        case exp.RegexpLike():
            return _text_function("regexp_like", node.this, node.expression)
        case exp.Like() | exp.ILike():
            return _like(node)
        case exp.Escape():
            return _text_function("like", *node.this.expressions, node.expression)
        case exp.Trim() | exp.StrPosition() | exp.Contains() | exp.Replace():
            key = "substr" if isinstance(node, exp.StrPosition) else "expression"
            if node.args.get(key):
                node.set(key, _sought(node.args[key]))
            return node
        case exp.Repeat() | exp.Pad():
            return bounded_text(node)
        case exp.Dot() if isinstance(node.this, exp.Anonymous) and node.this.name in ("window", "session_window"):
            return exp.Paren(this=node.copy())  # first in GROUP BY, sqlglot would take it for the clause WINDOW
        case exp.Cast() if "penstock" in node.meta:
            return _cast(node.this, external(type_of(node)))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() if "penstock" in node.meta:
            return _arithmetic(node)
        case exp.CurrentTimestamp():
            return call_of("timestamp_micros", exp.Placeholder(this=NOW))
        case exp.Floor() | exp.Ceil():
            return _whole(node)
        case exp.Avg() if type_of(node) == DURATION:
            return _keeping(node, BIGINT)
        case exp.PercentileDisc():
            # By its own name, or sqlglot makes an approximation of it that knows no DESC.
            return call_of("percentile_disc", node.this)
        case exp.Extract():
            return _extract(node)
        case SampleCondition():
            seed, parts = (_cast(_number(int(node.args[key])), BIGINT) for key in ("seed", "parts"))
            place = call_of("pmod", call_of("xxhash64", node.this, seed), _number(PARTS))
            return exp.LT(this=place, expression=parts)
        case exp.UnixToTime():
            micros = exp.Mul(this=exp.Paren(this=node.this), expression=exp.Literal.number("1000000"))
            return call_of("timestamp_micros", _cast(micros, BIGINT))
    return node


def _is_plain(name: str, arguments: list[exp.Expr]) -> bool:
    """Whether constants are such that Spark's function means the same: positions from 1 on, and no negative lengths."""
    if name not in ("substring", "left", "right", "split_part"):
        return False
    least = {"substring": (1, 0), "left": (0,), "right": (0,), "split_part": (1,)}[name]
    numbers = arguments[2:] if name == "split_part" else arguments[1:]
    return all(isinstance(n, exp.Literal) and int(n.name) >= low for n, low in zip(numbers, least, strict=False))


def _listed(node: exp.Anonymous) -> exp.Expr:
    """A listed function by its name in Spark, with the type that the list says."""
    function, type_ = CALLS[node.name], external(type_of(node))
    if node.meta.get("nested"):
        return fill(NESTED_ARRAYS[node.name], dict(zip("xy", node.expressions, strict=False)))
    if function.name in ("split_part", "substring_index"):
        node.set("expressions", [node.expressions[0], _sought(node.expressions[1]), node.expressions[2]])
    plain = _is_plain(function.name, node.expressions)
    form = None if plain else spark_form(function.name, node.expressions, type_)
    if form is not None:
        return _cast(form, type_)
    call = call_of(function.spark or node.name, *node.expressions)
    return _cast(call, type_) if function.cast else call


def _text_function(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A call of a function of ours: those of Spark backtrack, and cannot be interrupted."""
    return call_of(SPARK_PREFIX + name, *arguments)


def _like(node: exp.Binary) -> exp.Expr:
    """LIKE as it is where Spark needs no regular expression for it."""
    if _is_text(node.expression) and is_simple_like(node.expression.name):
        return node
    sides = (node.this, node.expression)
    if isinstance(node, exp.ILike):
        sides = (call_of("lower", node.this), call_of("lower", node.expression))
    return _text_function("like", *sides)


def _sought(node: exp.Expr) -> exp.Expr:
    """What is looked for at every place of a text: NULL if it is long, or one call could take minutes."""
    return node if _is_text(node) and len(node.name) <= COMPARED_MAX else fill(SHORT_TEXT, {"x": node})


def _is_text(node: exp.Expr) -> bool:
    """Whether a translated argument is a constant text."""
    return isinstance(node, exp.Literal) and node.is_string


def _whole(node: exp.Expr) -> exp.Expr:
    """FLOOR and CEIL, which give BIGINT in Spark: NaN and doubles too large for it are whole as they are."""
    if type_of(node) != DOUBLE:
        return _keeping(node, type_of(node))
    # A lambda names the argument: written out three times, nested calls would grow beyond all memory.
    name = exp.to_identifier("a", quoted=True)
    value = exp.Column(this=name)
    rounded = _cast(type(node)(this=value.copy()), DOUBLE)
    fits = exp.LT(this=exp.Abs(this=value.copy()), expression=exp.Literal.number(2**53))
    chosen = exp.Case(ifs=[exp.If(this=fits, true=rounded)], default=value)
    each = call_of("transform", call_of("array", node.this), exp.Lambda(this=chosen, expressions=[name.copy()]))
    return exp.Bracket(this=each, expressions=[exp.Literal.number(0)])


def _keeping(node: exp.Expr, type_: Type) -> exp.Expr:
    inner = node.copy()
    inner.meta.pop("penstock", None)
    return _cast(inner, external(type_))


def _cast(node: exp.Expr, target: Type) -> exp.Expr:
    return exp.Cast(this=node, to=_spark_type(target.to_spark()).copy())


@lru_cache(maxsize=256)
def _spark_type(name: str) -> exp.DataType:
    """sqlglot parses the name of a type each time, which a long list of constants cannot afford."""
    return exp.DataType.build(name, dialect="spark")


def _constant(value: Any, type_: Type) -> exp.Expr:
    if value is None:
        return _cast(exp.Null(), type_)
    if type_ == TIMESTAMP:
        return call_of("timestamp_micros", _number(value))
    if type_ == TEXT:
        return exp.Literal.string(value)
    if type_ == BOOLEAN:
        return exp.Boolean(this=value)
    if type_ == INT:
        return _number(value)
    if type_ == BIGINT:
        return _cast(_number(value), BIGINT)
    if type_.kind == "BINARY":
        return call_of("unhex", exp.Literal.string(value))
    return _cast(exp.Literal.string(str(value)), type_)


def _number(value: int) -> exp.Expr:
    number = exp.Literal.number(value)
    return exp.Paren(this=number) if value < 0 else number


def _arithmetic(node: exp.Expr) -> exp.Expr:
    left, right, result = node.this, node.expression, type_of(node)
    a, b = node.meta.get("left"), node.meta.get("right")
    plain = type(node)(this=left, expression=right)
    if a == TIMESTAMP and b == TIMESTAMP:
        difference = exp.Sub(this=call_of("unix_micros", left), expression=call_of("unix_micros", right))
        return exp.Paren(this=difference)
    if a == TIMESTAMP:
        moved = type(node)(this=call_of("unix_micros", left), expression=exp.Paren(this=right))
        return call_of("timestamp_micros", moved)
    if isinstance(node, exp.Div) and result in (INT, BIGINT):
        return _cast(exp.IntDiv(this=_grouped(left), expression=_grouped(right)), result)
    if result == DURATION and isinstance(node, exp.Mul | exp.Div):
        return _cast(plain, BIGINT)
    return _cast(plain, result) if result.kind == "DECIMAL" else plain


def _grouped(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Binary) else node


def _extract(node: exp.Extract) -> exp.Expr:
    part, value = node.this.name, node.expression
    if part == "EPOCH":
        return exp.Div(this=_cast(call_of("unix_micros", value), DOUBLE), expression=exp.Literal.number("1000000"))
    plain = exp.Extract(this=exp.var(part), expression=value)
    if part == "DOW":
        # Spark counts from 1, PostgreSQL from 0; both start on Sunday.
        return exp.Paren(this=exp.Sub(this=plain, expression=exp.Literal.number(1)))
    return _cast(plain, DOUBLE) if part == "SECOND" else plain


# -- the last look at a bound tree: every node in it is one that the binder makes
#
# The binder refuses unlisted functions where they are written. This check does not trust it: a clause that some future
# grammar leaves unbound fails here instead of reaching Spark.

_SELECTS = (exp.Select, exp.Subquery, exp.Union, exp.Except, exp.Intersect, exp.Values, exp.From, exp.Join, exp.Where)
_CLAUSES = (exp.Group, exp.Having, exp.Qualify, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Distinct, exp.Tuple)
_GROUPS = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Window, exp.WindowSpec, exp.Filter, exp.WithinGroup)
_NAMES = (exp.Table, exp.TableAlias, exp.Alias, exp.Identifier, exp.Column, exp.Star, exp.Dot, exp.Var)
_VALUES = (Const, Duration, exp.Literal, exp.Boolean, exp.Null, exp.Placeholder, exp.Paren, exp.Bracket, exp.DataType)
_OPERATORS = (exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_MORE_OPERATORS = (exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.Escape, exp.Exists)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.DPipe, exp.Concat)
_FORMS = (exp.Case, exp.If, exp.Cast, exp.Extract, exp.CurrentTimestamp, OwnWindow, SampleCondition)
# Clauses of our own, which hang on a SELECT and are not written into its text.
_OURS = (BeginEnds, BeginEnd, WindowEdge, WindowJoins, WindowJoin, WithinPercent)
_NODES = frozenset(RULES).union(
    _SELECTS, _CLAUSES, _GROUPS, _NAMES, _VALUES, _OPERATORS, _MORE_OPERATORS, _ARITHMETIC, _FORMS, _OURS
)
# Calls that the planner writes beside the listed ones.
_PLANNED = frozenset(
    {"window", "session_window", "struct", "max_by", "min_by", "any_value", SIMILAR, "regexp_replace_all"}
)


def check_nodes(root: exp.Expr) -> None:
    """Raise function_not_found or not_supported for what may not go to Spark."""
    for node in root.walk():
        if type(node) is exp.Anonymous:
            _check_call(node)
        elif type(node) not in _NODES:
            if isinstance(node, exp.Func):
                raise error("function_not_found", function=node.sql_name().lower())
            raise error("not_supported", feature=type(node).__name__)


def _check_call(node: exp.Anonymous) -> None:
    name = node.name.lower()
    if node.meta.get("user") or name in CALLS or name.removesuffix(ERROR) in APPROXIMATE or name in _PLANNED:
        return
    relation = isinstance(node.parent, exp.Table) and isinstance(node.expressions[0], exp.Placeholder)
    if name == "identifier" and relation and len(node.expressions) == 1:
        return  # the view of a relation, by a parameter
    raise error("function_not_found", function=name)
