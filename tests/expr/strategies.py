"""Random columns and well-typed random expressions over them."""

from __future__ import annotations

import functools
import math
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.expr.expression import Call, Column, Expr, Literal, columns_of
from penstock.functions.times import PARTS, UNITS
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT, TIMESTAMP, Type

COLUMNS = {
    "i": INT,
    "j": INT,
    "b": BIGINT,
    "c": BIGINT,
    "d": DOUBLE,
    "e": DOUBLE,
    "p": BOOLEAN,
    "q": BOOLEAN,
    "t": TEXT,
    "u": TEXT,
    "m": TIMESTAMP,
    "n": TIMESTAMP,
}
_WORDS = ["", "a", "ab", "abc", "a%b", "a_b", "ÄÖ", "Straße", " x ", "x\ny", "12", "-7", "3.9", "1e3", "true", "\\"]

VALUES: dict[Type, st.SearchStrategy[Any]] = {
    INT: st.sampled_from([0, 1, -1, 2, 7, -7, 10, 2**31 - 1, -(2**31)]) | st.integers(-20, 20),
    BIGINT: st.sampled_from([0, 1, -1, 3, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-20, 20),
    DOUBLE: st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.5, 2.675, 1e300, 5e-324, math.nan, math.inf, -math.inf])
    | st.floats(-100, 100),
    BOOLEAN: st.booleans(),
    TEXT: st.sampled_from(_WORDS) | st.text("abX%_ é", max_size=4),
    TIMESTAMP: st.integers(-(10**12), 10**16),
}


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 5).flatmap(lambda n: st.none() if n == 0 else values)


Batch = tuple[dict[str, pa.Array], list[dict[str, Any]]]


@st.composite
def with_rows(draw: st.DrawFn, exprs: st.SearchStrategy[Expr], max_rows: int = 12) -> tuple[Batch, Expr]:
    """An expression, and the columns that it reads: as Arrow arrays, and as rows, where timestamps are integers."""
    expr = draw(exprs)
    count = draw(st.integers(1, max_rows))
    plain = {
        name: draw(st.lists(maybe(VALUES[COLUMNS[name]]), min_size=count, max_size=count))
        for name in sorted(columns_of(expr))
    }
    arrays = {name: pa.array(values, COLUMNS[name].to_arrow()) for name, values in plain.items()}
    return (arrays, [{name: values[i] for name, values in plain.items()} for i in range(count)]), expr


_Rooted = tuple[str, st.SearchStrategy[Expr]]


def _call(operation: str, type_: Type, *arguments: st.SearchStrategy[Expr]) -> _Rooted:
    return operation, st.tuples(*arguments).map(lambda a: Call(operation, a, type_))


def _literal(type_: Type, values: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Expr]:
    return (VALUES[type_] if values is None else values).map(lambda v: Literal(v, type_))


@functools.cache
def expressions(type_: Type, depth: int = 2) -> st.SearchStrategy[Expr]:
    """Expressions of a type that use every operation."""
    names = [name for name, t in COLUMNS.items() if t == type_]
    leaves = st.sampled_from(names).map(lambda n: Column(n, type_)) | maybe(VALUES[type_]).map(
        lambda v: Literal(v, type_)
    )
    if depth == 0:
        return leaves
    return st.one_of(leaves, *(strategy for _, strategy in _calls(type_, depth - 1)))


def calls_of(operation: str, depth: int = 1) -> st.SearchStrategy[Expr]:
    """Calls of one operation in every type it has, on random arguments."""
    return st.one_of(*(strategy for type_ in VALUES for name, strategy in _calls(type_, depth) if name == operation))


@functools.cache
def _calls(type_: Type, depth: int) -> list[_Rooted]:
    same = expressions(type_, depth)
    truth = expressions(BOOLEAN, depth)
    out = [
        _call("coalesce", type_, same, same),
        _call("nullif", type_, same, same),
        _call("greatest", type_, same, same, same),
        _call("least", type_, same, same),
        _call("case", type_, truth, same, truth, same, same),
        _call("case", type_, truth, same),
    ]
    if type_ in (INT, BIGINT, DOUBLE):
        out += [_call(op, type_, same, same) for op in ("add", "sub", "mul", "div", "mod")]
        out += [_call(op, type_, same) for op in ("neg", "abs", "round", "trunc")]
        out += [_call("trunc", type_, same, _literal(INT, st.integers(-2, 3)))]
        out += [_call("round", type_, same, _literal(INT, st.integers(-2, 3)))]
        out += [_call("cast", type_, expressions(t, depth)) for t in (INT, BIGINT, DOUBLE, BOOLEAN) if t != type_]
        out += [_call("cast", type_, _texts(depth))]
    if type_ == BIGINT:
        out += [_call(op, BIGINT, expressions(DOUBLE, depth)) for op in ("floor", "ceil")]
        out += [_call("diff_us", BIGINT, expressions(TIMESTAMP, depth), expressions(TIMESTAMP, depth))]
    parts = {INT: sorted(set(PARTS) - {"EPOCH", "SECOND"}), DOUBLE: ["EPOCH", "SECOND"]}.get(type_)
    if parts is not None:
        out += [_call("extract", type_, _literal(TEXT, st.sampled_from(parts)), _times())]
    regular = _literal(TEXT, st.sampled_from(["(a)", "^(.)", "[a-c]{2}()", "(b|x).", "()\\."]))
    if type_ == INT:
        out += [_call("length", INT, _texts(depth))]
        out += [_call(op, INT, _texts(depth), regular) for op in ("regexp_count", "regexp_instr")]
    if type_ == DOUBLE:
        out += [_call(op, DOUBLE, same) for op in ("sqrt", "exp", "ln", "log10", "sign")] + [
            _call("power", DOUBLE, same, same)
        ]
    if type_ == TIMESTAMP:
        out += [_call("date_trunc", TIMESTAMP, _literal(TEXT, st.sampled_from(sorted(UNITS))), _times())]
        out += [_call("add_us", TIMESTAMP, same, _literal(BIGINT, st.integers(-(10**6), 10**6)))]
    if type_ == TEXT:
        small = st.integers(-5, 5)
        replacements = _literal(TEXT, st.sampled_from(["", "-", "<\\1\\&>"]))
        out += [
            _call("regexp_substr", TEXT, same, regular),
            _call("regexp_extract", TEXT, same, regular, _literal(INT, st.integers(0, 1))),
        ]
        out += [_call(op, TEXT, same, regular, replacements) for op in ("regexp_replace", "regexp_replace_all")]
        out += [_call("concat", TEXT, same, same)] + [_call(op, TEXT, same) for op in ("lower", "upper", "trim")]
        out += [_call("trim", TEXT, same, _literal(TEXT, st.sampled_from(["a", "xX ", ""])))]
        out += [
            _call("substring", TEXT, same, _literal(INT, small)),
            _call("substring", TEXT, same, _literal(INT, small), _literal(INT, small)),
            _call("substring", TEXT, same, expressions(INT, 0), _literal(INT, small)),
        ]
        out += [_call("cast", TEXT, expressions(t, depth)) for t in (INT, BIGINT, BOOLEAN)]
    if type_ == BOOLEAN:
        for t in (INT, BIGINT, DOUBLE, TEXT, TIMESTAMP, BOOLEAN):
            side = expressions(t, depth)
            out += [_call(op, BOOLEAN, side, side) for op in ("eq", "ne", "lt", "le", "gt", "ge", "same")]
            out += [_call("in", BOOLEAN, side, *([maybe(VALUES[t]).map(lambda v, t=t: Literal(v, t))] * 3))]
            out += [_call("is_null", BOOLEAN, side)]
        patterns = _literal(
            TEXT, st.sampled_from(["%", "a%", "%b", "%a%", "a_", "\\%", "a\\%b", "%x_y%", "Ä%", "%ASS%"])
        )
        out += [_call(op, BOOLEAN, _texts(depth), patterns) for op in ("like", "ilike")]
        whole = _literal(TEXT, st.sampled_from([rf"(?s)\A(?:{p})\z" for p in (".*", "a.*", "(?:a|ab)", "[^a]b?", "")]))
        out += [_call("matches", BOOLEAN, _texts(depth), whole), _call("regexp_like", BOOLEAN, _texts(depth), regular)]
        out += [_call(op, BOOLEAN, truth, truth, truth) for op in ("and", "or")] + [_call("not", BOOLEAN, truth)]
        chances = (_literal(BIGINT, st.integers(0, 9)), _literal(BIGINT, st.integers(0, 10**9)))
        out += [_call("sampled", BOOLEAN, expressions(BIGINT, depth), *chances)]
        out += [_call("cast", BOOLEAN, _texts(depth)), _call("cast", BOOLEAN, expressions(DOUBLE, depth))]
    return out


def _times() -> st.SearchStrategy[Expr]:
    """Within the years that the standard library has, for which expressions are not bound to stay."""
    return expressions(TIMESTAMP, 0)


def _texts(depth: int) -> st.SearchStrategy[Expr]:
    return expressions(TEXT, depth)
