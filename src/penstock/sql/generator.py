"""Trees back to text, for people: names of columns, printed statements and bound trees."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.generators.postgres import PostgresGenerator

from penstock.clock import format_timestamp
from penstock.sql.nodes import BeginEnd, Const, Duration, Hold, OwnWindow, WindowJoin
from penstock.types import format_duration


def _edge(node: exp.Expr) -> str:
    anchor, offset = node.args["anchor"], int(node.args["offset"])
    if anchor == "constant":
        return f"'{format_timestamp(offset)}'"
    if offset == 0:
        return str(anchor).upper()
    return f"{str(anchor).upper()} {'-' if offset < 0 else '+'} '{format_duration(abs(offset))}'"


class PenstockGenerator(PostgresGenerator):
    QUERY_HINTS = True
    TRANSFORMS = {
        **PostgresGenerator.TRANSFORMS,
        Duration: lambda self, node: self._duration(node),
        OwnWindow: lambda self, node: f"{self.sql(node.this)[:-1]}, {self._duration(Duration(this=str(node.us)))})",
        BeginEnd: lambda self, node: self._begin_end(node),
        WindowJoin: lambda self, node: self._window_join(node),
        Const: lambda self, node: self._const(node),
        Hold: lambda self, node: f"{self.sql(node, 'this')} FOR '{format_duration(node.us)}'",
    }
    AFTER_HAVING_MODIFIER_TRANSFORMS = {
        "window_joins": lambda self, node: self._clause(node, "window_joins", " AND "),
        **PostgresGenerator.AFTER_HAVING_MODIFIER_TRANSFORMS,
        "begin_end": lambda self, node: self._clause(node, "begin_end", " "),
    }

    def _clause(self, node: exp.Expr, key: str, separator: str) -> str:
        found = node.args.get(key)
        return "" if found is None else self.sep() + separator.join(self.sql(part) for part in found.expressions)

    def _duration(self, node: Duration) -> str:
        return f"INTERVAL '{format_duration(node.us)}'"

    def _begin_end(self, node: exp.Expr) -> str:
        if node.args.get("rows") is not None:
            text = f"BEGIN (LAST {node.args['rows']} ROWS{' PER SENSOR' if node.args.get('per_sensor') else ''})"
        else:
            text = f"BEGIN ({_edge(node.args['begin'])})"
        if node.args.get("end") is not None:
            text += f" END ({_edge(node.args['end'])})"
        alias = node.args.get("alias")
        return text if alias is None else f"{text} FOR {alias.name}"

    def _window_join(self, node: exp.Expr) -> str:
        low, high = int(node.args["low"]), int(node.args["high"])
        left, right = node.args.get("left"), node.args.get("right")
        pair = "" if left is None or right is None else f"({left.name}, {right.name})"
        if low == -high:
            return f"WINDOW{pair} = '{format_duration(high)}'"
        if low == 0:
            return f"DWINDOW{pair} = '{format_duration(high)}'"
        return f"WINDOW{pair} BETWEEN '{format_duration(low)}' AND '{format_duration(high)}'"

    def _const(self, node: Const) -> str:
        """A bound constant with its type."""
        type_, value = node.meta["penstock"], node.value
        if value is None:
            return f"NULL::{type_}"
        if type_.kind == "TIMESTAMP":
            return f"'{format_timestamp(value)}'::TIMESTAMP"
        if type_.kind == "DURATION":
            return f"'{format_duration(value)}'::INTERVAL"
        if type_.kind == "TEXT":
            return "'" + str(value).replace("'", "''") + "'"
        if type_.kind in ("INT", "BOOLEAN"):
            return str(value).upper()
        return f"{value}::{type_}"

    def cast_sql(self, node: exp.Cast, safe_prefix: str | None = None) -> str:
        if "penstock" in node.meta:
            return f"CAST({self.sql(node, 'this')} AS {node.meta['penstock']})"
        return super().cast_sql(node, safe_prefix)
