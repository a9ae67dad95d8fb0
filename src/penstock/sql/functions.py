"""The functions that a question may call: all of them, those that are alike in one line. Nothing else reaches Spark.

In: nothing. Out: `FUNCTIONS`, which the parser, the binder and the reference read. Users' own functions are in the
catalog. A function belongs here if it is pure: it reads no file, environment, session or network, and its result is
not much larger than its arguments (docs/decisions/0017-functions-that-reach-spark.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from sqlglot import exp

Kind = Literal["scalar", "aggregate", "ranking"]


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """One function: what it takes, what type it gives, and how it is written for Spark.

    `arguments` lists types as the reference shows them: `[, TEXT]` may be left out, `...` repeats what is before it.
    Words stand for types that depend on the call: `number`, `real` (a DECIMAL becomes DOUBLE), `common` (all equal),
    `any`, `array`, `element` (of the first argument), `unit` (a word such as 'hour').
    `result` is a type, or `same` (as the first argument), `array` of it, its `element`, `sum` or `average`.
    `node` is sqlglot's node where the planner knows the function by class; others are calls by their name.
    `spark` is the name in Spark where that is another. `cast`: Spark gives another type, which is cast to `result`.
    """

    name: str
    arguments: str
    result: str
    node: type[exp.Expr] | None = None
    kind: Kind = "scalar"
    aliases: tuple[str, ...] = ()
    spark: str = ""
    cast: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


def _spec(
    kind: Kind, names: str, arguments: str, result: str, node: type[exp.Expr] | None = None, **more: Any
) -> FunctionSpec:
    name, *aliases = names.split()
    return FunctionSpec(name, arguments, result, node, kind, tuple(aliases), **more)


def _alike(kind: Kind, names: str, arguments: str, result: str, **more: Any) -> list[FunctionSpec]:
    """Functions that take and give the same, each with one name."""
    return [_spec(kind, name, arguments, result, **more) for name in names.split()]


def _nodes(kind: Kind, arguments: str, result: str, *nodes: type[exp.Func]) -> list[FunctionSpec]:
    """Functions that take and give the same, each with a node of sqlglot's by its own name."""
    return [_spec(kind, node.sql_names()[0].lower(), arguments, result, node) for node in nodes]


_scalar, _aggregate, _ranking = partial(_spec, "scalar"), partial(_spec, "aggregate"), partial(_spec, "ranking")
FUNCTIONS: tuple[FunctionSpec, ...] = (
    # Numbers
    _scalar("abs", "number", "same", exp.Abs),
    _scalar("round", "number [, INT]", "same", exp.Round),
    _scalar("trunc", "number [, INT]", "same"),
    _scalar("floor", "number", "same", exp.Floor),
    _scalar("ceil ceiling", "number", "same", exp.Ceil),
    _scalar("sign signum", "DOUBLE", "DOUBLE", exp.Sign),
    _scalar("sqrt", "DOUBLE", "DOUBLE", exp.Sqrt),
    _scalar("cbrt", "DOUBLE", "DOUBLE"),
    _scalar("exp", "DOUBLE", "DOUBLE", exp.Exp),
    _scalar("expm1", "DOUBLE", "DOUBLE"),
    _scalar("ln", "DOUBLE", "DOUBLE", exp.Ln),
    _scalar("log", "DOUBLE [, DOUBLE]", "DOUBLE"),
    *_alike("scalar", "log2 log10 log1p", "DOUBLE", "DOUBLE"),
    _scalar("power pow", "DOUBLE, DOUBLE", "DOUBLE", exp.Pow),
    _scalar("mod", "common, common", "same", exp.Mod),
    *_alike("scalar", "div pmod", "common, common", "same"),
    *_nodes("scalar", "DOUBLE", "DOUBLE", exp.Sin, exp.Cos, exp.Tan),
    *_alike("scalar", "cot sec csc", "DOUBLE", "DOUBLE"),
    *_nodes("scalar", "DOUBLE", "DOUBLE", exp.Asin, exp.Acos, exp.Atan),
    _scalar("atan2", "DOUBLE, DOUBLE", "DOUBLE", exp.Atan2),
    *_alike("scalar", "sinh cosh tanh asinh acosh atanh", "DOUBLE", "DOUBLE"),
    _scalar("hypot", "DOUBLE, DOUBLE", "DOUBLE"),
    *_nodes("scalar", "DOUBLE", "DOUBLE", exp.Radians, exp.Degrees),
    _scalar("pi", "", "DOUBLE", exp.Pi),
    _scalar("random rand", "", "DOUBLE", exp.Rand),
    _scalar("rint", "DOUBLE", "DOUBLE"),
    _scalar("bround", "DOUBLE [, INT]", "DOUBLE"),
    _scalar("factorial", "INT", "BIGINT"),
    _scalar("width_bucket", "DOUBLE, DOUBLE, DOUBLE, BIGINT", "INT", cast=True),
    _scalar("isnan is_nan", "DOUBLE", "BOOLEAN", exp.IsNan),
    _scalar("nanvl", "DOUBLE, DOUBLE", "DOUBLE"),
    *_nodes("scalar", "common, ...", "same", exp.Greatest, exp.Least),
    # Bits
    _scalar("bit_count", "BIGINT", "INT"),
    _scalar("getbit bit_get", "BIGINT, INT", "INT", cast=True),
    *_alike("scalar", "shiftleft shiftright shiftrightunsigned", "BIGINT, INT", "BIGINT"),
    *_alike("scalar", "bin hex", "BIGINT", "TEXT"),
    _scalar("unhex", "TEXT", "BINARY"),
    _scalar("conv", "TEXT, INT, INT", "TEXT"),
    # Missing values
    _scalar("coalesce ifnull nvl", "common, ...", "same", exp.Coalesce),
    _scalar("nullif", "common, common", "same", exp.Nullif),
    _scalar("if iif", "BOOLEAN, common [, common]", "common", exp.If),
    # Text
    _scalar("lower lcase", "TEXT", "TEXT", exp.Lower),
    _scalar("upper ucase", "TEXT", "TEXT", exp.Upper),
    _scalar("initcap", "TEXT", "TEXT"),
    _scalar("reverse", "TEXT", "TEXT", exp.Reverse),
    _scalar("length len char_length character_length", "TEXT", "INT", exp.Length),
    *_alike("scalar", "bit_length octet_length", "TEXT", "INT"),
    _scalar("concat", "any, ...", "TEXT", exp.Concat),
    _scalar("concat_ws", "TEXT, TEXT, ...", "TEXT"),
    _scalar("trim btrim ltrim rtrim", "TEXT [, TEXT]", "TEXT", exp.Trim),
    _scalar("substring substr", "TEXT, INT [, INT]", "TEXT", exp.Substring),
    _scalar("substring_index", "TEXT, TEXT, INT", "TEXT"),
    *_alike("scalar", "left right", "TEXT, INT", "TEXT"),
    _scalar("lpad rpad", "TEXT, INT [, TEXT]", "TEXT", exp.Pad),
    _scalar("repeat", "TEXT, INT", "TEXT", exp.Repeat),
    _scalar("replace", "TEXT, TEXT [, TEXT]", "TEXT", exp.Replace),
    _scalar("overlay", "TEXT, TEXT, INT [, INT]", "TEXT", exp.Overlay),
    _scalar("translate", "TEXT, TEXT, TEXT", "TEXT"),
    _scalar("strpos position instr locate charindex", "TEXT, TEXT", "INT", exp.StrPosition),
    _scalar("starts_with startswith", "TEXT, TEXT", "BOOLEAN", exp.StartsWith),
    _scalar("ends_with endswith", "TEXT, TEXT", "BOOLEAN", exp.EndsWith),
    _scalar("contains", "TEXT, TEXT", "BOOLEAN", exp.Contains),
    _scalar("split_part", "TEXT, TEXT, INT", "TEXT"),
    _scalar("split", "TEXT, TEXT [, INT]", "ARRAY<TEXT>"),
    _scalar("find_in_set", "TEXT, TEXT", "INT"),
    _scalar("elt", "INT, TEXT, ...", "TEXT"),
    _scalar("ascii", "TEXT", "INT"),
    _scalar("chr char", "BIGINT", "TEXT"),
    _scalar("levenshtein", "TEXT, TEXT", "INT"),
    _scalar("jaro_winkler_similarity", "TEXT, TEXT", "DOUBLE"),
    _scalar("soundex", "TEXT", "TEXT"),
    _scalar("luhn_check", "TEXT", "BOOLEAN"),
    _scalar("regexp_replace", "TEXT, TEXT, TEXT [, TEXT]", "TEXT"),
    _scalar("regexp_extract", "TEXT, TEXT [, INT]", "TEXT"),
    _scalar("regexp_extract_all", "TEXT, TEXT [, INT]", "ARRAY<TEXT>"),
    _scalar("regexp_like", "TEXT, TEXT", "BOOLEAN", exp.RegexpLike),
    *_alike("scalar", "regexp_count regexp_instr", "TEXT, TEXT", "INT"),
    _scalar("regexp_substr", "TEXT, TEXT", "TEXT"),
    _scalar("url_encode", "TEXT", "TEXT"),
    _scalar("url_decode", "TEXT", "TEXT", spark="try_url_decode"),
    _scalar("parse_url", "TEXT, TEXT [, TEXT]", "TEXT", spark="try_parse_url"),
    _scalar("base64", "BINARY", "TEXT"),
    _scalar("unbase64", "TEXT", "BINARY"),
    _scalar("typeof", "any", "TEXT"),
    # Hashes
    _scalar("md5", "TEXT", "TEXT", exp.MD5),
    _scalar("sha1 sha", "TEXT", "TEXT"),
    _scalar("sha2", "TEXT, INT", "TEXT"),
    _scalar("crc32", "TEXT", "BIGINT"),
    _scalar("hash", "any, ...", "INT"),
    _scalar("xxhash64", "any, ...", "BIGINT"),
    # JSON
    _scalar("get_json_object", "TEXT, TEXT", "TEXT"),
    _scalar("json_array_length", "TEXT", "INT"),
    _scalar("json_object_keys", "TEXT", "ARRAY<TEXT>"),
    _scalar("to_json", "any", "TEXT"),
    # Time
    _scalar("now current_timestamp localtimestamp", "", "TIMESTAMP", exp.CurrentTimestamp),
    _scalar("date_part extract", "unit, TIMESTAMP", "DOUBLE", exp.Extract),
    _scalar("date_trunc", "unit, TIMESTAMP", "TIMESTAMP", exp.TimestampTrunc),
    *_nodes("scalar", "TIMESTAMP", "INT", exp.Year, exp.Quarter, exp.Month),
    _scalar("weekofyear week_of_year", "TIMESTAMP", "INT", exp.WeekOfYear),
    _scalar("day", "TIMESTAMP", "INT", exp.Day),
    _scalar("dayofmonth day_of_month", "TIMESTAMP", "INT", exp.DayOfMonth),
    _scalar("dayofyear day_of_year", "TIMESTAMP", "INT", exp.DayOfYear),
    *_alike("scalar", "dayofweek weekday", "TIMESTAMP", "INT"),
    *_nodes("scalar", "TIMESTAMP", "INT", exp.Hour, exp.Minute),
    _scalar("second", "TIMESTAMP", "INT"),
    *_alike("scalar", "dayname monthname", "TIMESTAMP", "TEXT"),
    *_alike("scalar", "to_char date_format", "TIMESTAMP, TEXT", "TEXT"),
    _scalar("to_timestamp", "DOUBLE", "TIMESTAMP", exp.UnixToTime),
    _scalar("to_timestamp", "TEXT, TEXT", "TIMESTAMP", exp.StrToTime),
    _scalar("make_timestamp", "INT, INT, INT, INT, INT, DOUBLE", "TIMESTAMP"),
    _scalar("make_date", "INT, INT, INT", "TIMESTAMP", cast=True),
    *_alike("scalar", "date_add date_sub add_months", "TIMESTAMP, INT", "TIMESTAMP", cast=True),
    _scalar("last_day", "TIMESTAMP", "TIMESTAMP", cast=True),
    _scalar("next_day", "TIMESTAMP, TEXT", "TIMESTAMP", cast=True),
    _scalar("datediff date_diff", "TIMESTAMP, TIMESTAMP", "INT"),
    _scalar("months_between", "TIMESTAMP, TIMESTAMP", "DOUBLE"),
    *_alike("scalar", "from_utc_timestamp to_utc_timestamp", "TIMESTAMP, TEXT", "TIMESTAMP"),
    _scalar("from_unixtime", "BIGINT [, TEXT]", "TEXT"),
    *_alike("scalar", "unix_timestamp unix_micros unix_millis unix_seconds", "TIMESTAMP", "BIGINT"),
    *_alike("scalar", "timestamp_micros timestamp_millis timestamp_seconds", "BIGINT", "TIMESTAMP"),
    # Arrays
    _scalar("array", "common, ...", "array", exp.Array),
    _scalar("array_length", "array [, INT]", "INT"),
    _scalar("array_size", "array", "INT"),
    _scalar("cardinality size", "array", "INT"),
    _scalar("array_contains array_has", "array, element", "BOOLEAN", exp.ArrayContains),
    _scalar("array_position", "array, element", "BIGINT"),
    *_alike("scalar", "array_append array_prepend array_remove", "array, element", "same"),
    *_alike("scalar", "array_distinct array_compact", "array", "same"),
    *_alike("scalar", "array_union array_intersect array_except", "common, common", "same"),
    _scalar("arrays_overlap", "common, common", "BOOLEAN"),
    *_alike("scalar", "array_max array_min", "array", "element"),
    _scalar("array_sort", "array", "same"),
    _scalar("sort_array", "array [, BOOLEAN]", "same"),
    _scalar("slice", "array, INT, INT", "same"),
    _scalar("element_at", "array, INT", "element", spark="try_element_at"),
    _scalar("flatten", "array", "element"),
    _scalar("array_join array_to_string", "array, TEXT [, TEXT]", "TEXT", spark="array_join"),
    # Aggregates
    _aggregate("count", "any", "BIGINT", exp.Count),
    _aggregate("count_if countif", "BOOLEAN", "BIGINT", exp.CountIf),
    _aggregate("sum", "number", "sum", exp.Sum),
    _aggregate("avg", "real", "average", exp.Avg),
    *_nodes("aggregate", "any", "same", exp.Min, exp.Max, exp.AnyValue, exp.First, exp.Last),
    _aggregate("min_by arg_min argmin", "any, any", "same", exp.ArgMin),
    _aggregate("max_by arg_max argmax", "any, any", "same", exp.ArgMax),
    _aggregate("stddev stdev", "DOUBLE", "DOUBLE", exp.Stddev),
    *_nodes("aggregate", "DOUBLE", "DOUBLE", exp.StddevSamp, exp.StddevPop),
    _aggregate("variance var_samp variance_samp", "DOUBLE", "DOUBLE", exp.Variance),
    _aggregate("var_pop variance_pop", "DOUBLE", "DOUBLE", exp.VariancePop),
    *_nodes("aggregate", "DOUBLE", "DOUBLE", exp.Skewness, exp.Kurtosis),
    *_nodes(
        "aggregate",
        "DOUBLE, DOUBLE",
        "DOUBLE",
        exp.Corr,
        exp.CovarSamp,
        exp.CovarPop,
        exp.RegrSlope,
        exp.RegrIntercept,
        exp.RegrR2,
    ),
    _aggregate("regr_count", "DOUBLE, DOUBLE", "BIGINT", exp.RegrCount),
    *_alike("aggregate", "regr_avgx regr_avgy regr_sxx regr_sxy regr_syy", "DOUBLE, DOUBLE", "DOUBLE"),
    _aggregate("median", "DOUBLE", "DOUBLE", exp.Median),
    _aggregate("mode", "any", "same", exp.Mode),
    _aggregate("percentile", "DOUBLE, DOUBLE", "DOUBLE"),
    *_nodes("aggregate", "DOUBLE", "DOUBLE", exp.PercentileCont, exp.PercentileDisc),
    _aggregate("percentile_approx", "DOUBLE, DOUBLE [, INT]", "DOUBLE"),
    _aggregate("approx_count_distinct", "any", "BIGINT", exp.ApproxDistinct),
    _aggregate("twa", "DOUBLE", "DOUBLE"),
    _aggregate("bool_and every", "BOOLEAN", "BOOLEAN", exp.LogicalAnd),
    _aggregate("bool_or", "BOOLEAN", "BOOLEAN", exp.LogicalOr),
    *_alike("aggregate", "bit_and bit_or bit_xor", "BIGINT", "BIGINT"),
    _aggregate("array_agg arrayagg", "any", "array", exp.ArrayAgg),
    *_alike("aggregate", "collect_list collect_set", "any", "array"),
    _aggregate("string_agg group_concat", "TEXT [, TEXT]", "TEXT", exp.GroupConcat),
    # Only with OVER (...)
    *_nodes("ranking", "", "INT", exp.RowNumber, exp.Rank, exp.DenseRank),
    _ranking("ntile", "INT", "INT", exp.Ntile),
    *_nodes("ranking", "", "DOUBLE", exp.PercentRank, exp.CumeDist),
    *_nodes("ranking", "any [, INT [, any]]", "same", exp.Lag, exp.Lead),
    *_nodes("ranking", "any", "same", exp.FirstValue, exp.LastValue),
    _ranking("nth_value", "any, INT", "same", exp.NthValue),
)

# What sqlglot reads into nodes of its own. Every other name is read as a plain call, which the binder looks up here.
NODE_NAMES = frozenset(name for function in FUNCTIONS if function.node is not None for name in function.names)
CALLS: dict[str, FunctionSpec] = {
    name: function for function in FUNCTIONS if function.node is None for name in function.names
}
