"""Window functions of a bound question: as calls of a plan, or NotCovered with the reason."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from penstock.expr.expression import Expr
from penstock.sql.bound_trees import output_column
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.nodes import Const
from penstock.sql.plan.window_calls import OrderKey, WindowCall, window_name
from penstock.sql.values import external, type_of

_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
    exp.Ntile: "ntile",
    exp.Lag: "lag",
    exp.Lead: "lead",
}
_OF_OVER = ("this", "partition_by", "order", "over")
MOST_ROWS_AWAY = 16


class WindowCalls:
    """The window functions of a SELECT, each once. `lower` gives an expression over the rows that they see."""

    def __init__(self, lower: Callable[[exp.Expr], Expr]) -> None:
        self.calls: list[WindowCall] = []
        self._lower = lower

    def replaced(self, node: exp.Window) -> exp.Expr:
        """What stands for the value of a window function in expressions beside it."""
        call = window_call(node, self._lower)
        if call not in self.calls:
            self.calls.append(call)
        return output_column(window_name(self.calls.index(call)), call.type)


def window_call(node: exp.Window, lower: Callable[[exp.Expr], Expr]) -> WindowCall:
    """One window function, or NotCovered."""
    function = _FUNCTIONS.get(type(node.this))
    if function is None:
        raise NotCovered("a window function other than ranks, LAG and LEAD runs as Spark SQL")
    if any(value for key, value in node.args.items() if key not in _OF_OVER):
        raise NotCovered("a window function with a frame or a named window runs as Spark SQL")
    order = node.args.get("order")
    if order is None:
        raise NotCovered("a window function without ORDER BY runs as Spark SQL")
    arguments, count = _arguments(node.this, function, lower)
    keys = tuple(
        OrderKey(lower(item.this), bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
        for item in order.expressions
    )
    partition = tuple(lower(each) for each in node.args.get("partition_by") or [])
    if any(each.type.kind in ("ARRAY", "STRUCT") for each in (*partition, *(key.expr for key in keys))):
        raise NotCovered("a window function over an array or a struct runs as Spark SQL")
    return WindowCall(function, external(type_of(node)), partition, keys, arguments, count)


def _arguments(node: exp.Expr, function: str, lower: Callable[[exp.Expr], Expr]) -> tuple[tuple[Expr, ...], int]:
    if function == "ntile":
        return (), _whole(node.this, "NTILE", None)
    if function not in ("lag", "lead"):
        return (), 0
    offset, default = node.args.get("offset"), node.args.get("default")
    count = 1 if offset is None else _whole(offset, function.upper(), MOST_ROWS_AWAY)
    arguments = [lower(node.this)]
    if default is not None:
        arguments.append(lower(default))
    return tuple(arguments), count


def _whole(node: exp.Expr, words: str, most: int | None) -> int:
    value = node.value if isinstance(node, Const) else None
    if not isinstance(value, int) or value < 1:
        raise NotCovered(f"{words} of something else than a positive number runs as Spark SQL")
    if most is not None and value > most:
        raise NotCovered(f"{words} of a row more than {most} rows away runs as Spark SQL")
    return value
