"""Built-in functions and aggregates: what they take and what type they give.

A rule says how arguments are brought to types and which type comes out. Anything that sqlglot knows and this table
does not is left to Spark, with the type sqlglot states for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from penstock.sql.values import DURATION, NULL
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT, TIMESTAMP, Type

Result = Callable[[list[Type]], Type]


@dataclass(frozen=True, slots=True)
class Rule:
    """`arguments`: a type for each (the last repeats), "number", "real" (DECIMAL becomes DOUBLE), "common" (all equal) or None."""

    arguments: tuple[Type | str | None, ...]
    result: Type | Result


def _first(types: list[Type]) -> Type:
    return types[0]


def _sum(types: list[Type]) -> Type:
    if types[0].kind == "DECIMAL":
        return Type("DECIMAL", precision=min(38, types[0].precision + 10), scale=types[0].scale)
    return types[0] if types[0] in (DOUBLE, DURATION) else BIGINT


def _array(types: list[Type]) -> Type:
    return Type("ARRAY", element=types[0])


def _element(types: list[Type]) -> Type:
    return types[0].element or NULL


SCALARS: dict[type[exp.Expr], Rule] = {
    exp.Abs: Rule(("number",), _first),
    exp.Round: Rule(("number", INT), _first),
    exp.Floor: Rule(("number",), _first),
    exp.Ceil: Rule(("number",), _first),
    exp.Sqrt: Rule((DOUBLE,), DOUBLE),
    exp.Exp: Rule((DOUBLE,), DOUBLE),
    exp.Ln: Rule((DOUBLE,), DOUBLE),
    exp.Log: Rule((DOUBLE,), DOUBLE),
    exp.Pow: Rule((DOUBLE,), DOUBLE),
    exp.Sign: Rule((DOUBLE,), DOUBLE),
    exp.Sin: Rule((DOUBLE,), DOUBLE),
    exp.Cos: Rule((DOUBLE,), DOUBLE),
    exp.Tan: Rule((DOUBLE,), DOUBLE),
    exp.Asin: Rule((DOUBLE,), DOUBLE),
    exp.Acos: Rule((DOUBLE,), DOUBLE),
    exp.Atan: Rule((DOUBLE,), DOUBLE),
    exp.Atan2: Rule((DOUBLE,), DOUBLE),
    exp.Radians: Rule((DOUBLE,), DOUBLE),
    exp.Degrees: Rule((DOUBLE,), DOUBLE),
    exp.Pi: Rule((), DOUBLE),
    exp.Rand: Rule((), DOUBLE),
    exp.IsNan: Rule((DOUBLE,), BOOLEAN),
    exp.Lower: Rule((TEXT,), TEXT),
    exp.Upper: Rule((TEXT,), TEXT),
    exp.Initcap: Rule((TEXT,), TEXT),
    exp.Reverse: Rule((TEXT,), TEXT),
    exp.Length: Rule((TEXT,), INT),
    exp.Trim: Rule((TEXT,), TEXT),
    exp.Substring: Rule((TEXT, INT), TEXT),
    exp.Left: Rule((TEXT, INT), TEXT),
    exp.Right: Rule((TEXT, INT), TEXT),
    exp.Repeat: Rule((TEXT, INT), TEXT),
    exp.Replace: Rule((TEXT,), TEXT),
    exp.RegexpReplace: Rule((TEXT,), TEXT),
    exp.RegexpExtract: Rule((TEXT, TEXT, INT), TEXT),
    exp.RegexpLike: Rule((TEXT,), BOOLEAN),
    exp.RegexpILike: Rule((TEXT,), BOOLEAN),
    exp.SimilarTo: Rule((TEXT,), BOOLEAN),
    exp.StartsWith: Rule((TEXT,), BOOLEAN),
    exp.EndsWith: Rule((TEXT,), BOOLEAN),
    exp.Contains: Rule((TEXT,), BOOLEAN),
    exp.StrPosition: Rule((TEXT,), INT),
    exp.SplitPart: Rule((TEXT, TEXT, INT), TEXT),
    exp.Pad: Rule((TEXT, INT, TEXT), TEXT),
    exp.MD5: Rule((TEXT,), TEXT),
    exp.Greatest: Rule(("common",), _first),
    exp.Least: Rule(("common",), _first),
    exp.Coalesce: Rule(("common",), _first),
    exp.Nullif: Rule(("common",), _first),
    exp.Year: Rule((TIMESTAMP,), INT),
    exp.WeekOfYear: Rule((TIMESTAMP,), INT),
    exp.Day: Rule((TIMESTAMP,), INT),
    exp.TimestampTrunc: Rule((TIMESTAMP, None), TIMESTAMP),
    exp.DateTrunc: Rule((None, TIMESTAMP), TIMESTAMP),
    exp.UnixToTime: Rule((DOUBLE,), TIMESTAMP),
    exp.TimeToStr: Rule((TIMESTAMP, None), TEXT),
    exp.ArraySize: Rule((None,), INT),
    exp.ArrayContains: Rule((None,), BOOLEAN),
    exp.Array: Rule(("common",), lambda types: Type("ARRAY", element=types[0] if types else NULL)),
}

AGGREGATES: dict[type[exp.Expr], Rule] = {
    exp.Count: Rule((None,), BIGINT),
    exp.CountIf: Rule((BOOLEAN,), BIGINT),
    exp.Sum: Rule(("number",), _sum),
    exp.Avg: Rule(("real",), lambda types: DURATION if types[0] == DURATION else DOUBLE),
    exp.Min: Rule((None,), _first),
    exp.Max: Rule((None,), _first),
    exp.AnyValue: Rule((None,), _first),
    exp.First: Rule((None,), _first),
    exp.Last: Rule((None,), _first),
    exp.Stddev: Rule((DOUBLE,), DOUBLE),
    exp.StddevSamp: Rule((DOUBLE,), DOUBLE),
    exp.StddevPop: Rule((DOUBLE,), DOUBLE),
    exp.Variance: Rule((DOUBLE,), DOUBLE),
    exp.VariancePop: Rule((DOUBLE,), DOUBLE),
    exp.Corr: Rule((DOUBLE,), DOUBLE),
    exp.CovarSamp: Rule((DOUBLE,), DOUBLE),
    exp.CovarPop: Rule((DOUBLE,), DOUBLE),
    exp.RegrSlope: Rule((DOUBLE,), DOUBLE),
    exp.RegrIntercept: Rule((DOUBLE,), DOUBLE),
    exp.RegrR2: Rule((DOUBLE,), DOUBLE),
    exp.RegrCount: Rule((DOUBLE,), BIGINT),
    exp.Skewness: Rule((DOUBLE,), DOUBLE),
    exp.Kurtosis: Rule((DOUBLE,), DOUBLE),
    exp.Median: Rule((DOUBLE,), DOUBLE),
    exp.PercentileCont: Rule((DOUBLE,), DOUBLE),
    exp.ApproxDistinct: Rule((None,), BIGINT),
    exp.LogicalAnd: Rule((BOOLEAN,), BOOLEAN),
    exp.LogicalOr: Rule((BOOLEAN,), BOOLEAN),
    exp.ArrayAgg: Rule((None,), _array),
    exp.GroupConcat: Rule((TEXT,), TEXT),
    exp.ArgMax: Rule((None,), _first),
    exp.ArgMin: Rule((None,), _first),
}

# Only with OVER (...).
RANKING: dict[type[exp.Expr], Rule] = {
    exp.RowNumber: Rule((), INT),
    exp.Rank: Rule((None,), INT),
    exp.DenseRank: Rule((None,), INT),
    exp.Ntile: Rule((INT,), INT),
    exp.PercentRank: Rule((None,), DOUBLE),
    exp.CumeDist: Rule((None,), DOUBLE),
    exp.Lag: Rule((None, INT, None), _first),
    exp.Lead: Rule((None, INT, None), _first),
    exp.FirstValue: Rule((None,), _first),
    exp.LastValue: Rule((None,), _first),
    exp.NthValue: Rule((None, INT), _first),
}

RULES = {**SCALARS, **AGGREGATES, **RANKING}

# Functions of Spark that sqlglot does not know by class.
SPARK_FUNCTIONS: dict[str, Rule] = {
    "unix_micros": Rule((TIMESTAMP,), BIGINT),
    "unix_millis": Rule((TIMESTAMP,), BIGINT),
    "unix_seconds": Rule((TIMESTAMP,), BIGINT),
    "timestamp_micros": Rule((BIGINT,), TIMESTAMP),
    "timestamp_millis": Rule((BIGINT,), TIMESTAMP),
    "timestamp_seconds": Rule((BIGINT,), TIMESTAMP),
    "cot": Rule((DOUBLE,), DOUBLE),
    "log2": Rule((DOUBLE,), DOUBLE),
    "log10": Rule((DOUBLE,), DOUBLE),
    "log1p": Rule((DOUBLE,), DOUBLE),
    "expm1": Rule((DOUBLE,), DOUBLE),
    "hypot": Rule((DOUBLE,), DOUBLE),
    "rint": Rule((DOUBLE,), DOUBLE),
    "pmod": Rule(("common",), _first),
    "hash": Rule((None,), INT),
    "xxhash64": Rule((None,), BIGINT),
    "percentile": Rule((DOUBLE,), DOUBLE),
    "twa": Rule((DOUBLE,), DOUBLE),
    "percentile_approx": Rule((DOUBLE,), DOUBLE),
    "cardinality": Rule((None,), INT),
    "array_max": Rule((None,), _element),
    "array_min": Rule((None,), _element),
    "translate": Rule((TEXT,), TEXT),
    "ascii": Rule((TEXT,), INT),
    "chr": Rule((INT,), TEXT),
    "soundex": Rule((TEXT,), TEXT),
}
SPARK_AGGREGATES = frozenset({"twa", "percentile", "percentile_approx"})


def stated_type(node: exp.Expr) -> Type | None:
    """The type that sqlglot states for a function of Spark, where it does."""
    returns = (Spark.EXPRESSION_METADATA.get(type(node)) or {}).get("returns")
    if returns is None:
        return None
    kind = exp.DataType.build(returns).this
    return {
        exp.DType.INT: INT,
        exp.DType.BIGINT: BIGINT,
        exp.DType.DOUBLE: DOUBLE,
        exp.DType.BOOLEAN: BOOLEAN,
        exp.DType.VARCHAR: TEXT,
        exp.DType.TEXT: TEXT,
        exp.DType.TIMESTAMP: TIMESTAMP,
        exp.DType.TIMESTAMPTZ: TIMESTAMP,
    }.get(kind)
