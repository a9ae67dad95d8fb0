"""Names of output columns: as PostgreSQL gives them, but readable and unique."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.dialect import sql_of
from penstock.sql.scope import fold

_NAMED: dict[type[exp.Expr], str] = {
    exp.Case: "case",
    exp.Exists: "exists",
    exp.Coalesce: "coalesce",
    exp.CurrentTimestamp: "now",
    exp.TimestampTrunc: "date_trunc",
    exp.UnixToTime: "to_timestamp",
    exp.Array: "array",
    exp.Ceil: "ceil",
    exp.Pow: "power",
    exp.StddevSamp: "stddev",
    exp.GroupConcat: "string_agg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.StrPosition: "position",
    exp.ApproxDistinct: "approx_count_distinct",
}


def output_name(node: exp.Expr) -> str:
    """The name of an unbound SELECT item."""
    match node:
        case exp.Alias():
            return fold(node.args["alias"])
        case exp.Column():
            return fold(node.this)
        case exp.Dot() if isinstance(node.expression, exp.Identifier):
            return fold(node.expression)
        case exp.Paren() | exp.Filter() | exp.WithinGroup() | exp.Window():
            return output_name(node.this)
        case exp.Cast() if not isinstance(node.this, exp.Literal):
            return output_name(node.this)
        case exp.Subquery() if isinstance(node.this, exp.Select) and node.this.expressions:
            return output_name(node.this.expressions[0])
        case exp.Anonymous():
            return node.name.lower()
        case exp.Pad():
            return "lpad" if node.args.get("is_left") else "rpad"
    if type(node) in _NAMED:
        return _NAMED[type(node)]
    if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Cast):
        return node.sql_name().lower()
    # PostgreSQL says ?column? here, which a query cannot refer to.
    return sql_of(node)
