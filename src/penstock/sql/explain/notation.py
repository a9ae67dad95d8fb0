"""Windows, conditions and outputs of a plan in SQL's notation."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.catalog.model import POSITION_COLUMN
from penstock.catalog.state import CatalogState
from penstock.clock import format_timestamp
from penstock.expr.expression import Call, Column, Expr, Literal, UserCall
from penstock.expr.windows import EVERYTHING, Window
from penstock.functions.samples import PARTS
from penstock.sql.plan import Output
from penstock.sql.plan.window_calls import WindowCall

_INFIX = {
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "same": "IS NOT DISTINCT FROM",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "like": "LIKE",
    "ilike": "ILIKE",
    "and": "AND",
    "or": "OR",
    "concat": "||",
}


def show_window(window: Window) -> str:
    return "everything that is kept" if window == EVERYTHING else str(window)


def show_table(table_id: int, state: CatalogState) -> str:
    """A table's name in quotes; old journals have queries of tables that are gone."""
    table = state.tables_by_id.get(table_id)
    return "a table that was dropped" if table is None else f'"{table.name}"'


def show(expr: Expr, nested: bool = False) -> str:
    """A kernel expression in SQL's notation."""
    match expr:
        case Literal(value, type_):
            return _literal(value, str(type_))
        case Column(name):
            return name
        case UserCall(function, arguments):
            return f"{function}({', '.join(show(a) for a in arguments)})"
        case Call("cast", (value,), type_):
            return f"CAST({show(value)} AS {type_})"
        case Call("not", (Call("is_null", (value,)),)):
            return f"{show(value, True)} IS NOT NULL"
        case Call("is_null", (value,)):
            return f"{show(value, True)} IS NULL"
        case Call("not", (Call("same", (left, right)),)):
            text = f"{show(left, True)} IS DISTINCT FROM {show(right, True)}"
            return f"({text})" if nested else text
        case Call("not", (value,)):
            return f"NOT {show(value, True)}"
        case Call("in", (value, *items)):
            return f"{show(value, True)} IN ({', '.join(show(i) for i in items)})"
        case Call("extract", (Literal(part), value)):
            return f"EXTRACT({part} FROM {show(value)})"
        case Call("sampled", (_, Literal(seed), Literal(parts))):
            return f"TABLESAMPLE BERNOULLI ({parts / PARTS * 100:g}) REPEATABLE ({seed})"
        case Call("eq", (Call("mod", (Column(POSITION_COLUMN.name), Literal(period))), Literal(place))):
            return f"TABLESAMPLE PERIODIC ({period}) REPEATABLE ({place})"
        case Call(operation, arguments) if operation in _INFIX:
            text = f" {_INFIX[operation]} ".join(show(a, True) for a in arguments)
            return f"({text})" if nested else text
        case Call(operation, arguments):
            return f"{operation}({', '.join(show(a) for a in arguments)})"
    raise AssertionError(expr)


def show_window_call(call: WindowCall) -> str:
    """A window function in SQL's notation."""
    arguments = [show(argument) for argument in call.arguments]
    if call.count:
        arguments.insert(1, str(call.count))
    partition = [f"PARTITION BY {', '.join(map(show, call.partition))}"] if call.partition else []
    order = ", ".join(show(key.expr) + " DESC" * key.descending for key in call.order)
    return f"{call.function}({', '.join(arguments)}) OVER ({' '.join([*partition, f'ORDER BY {order}'])})"


def _literal(value: object, type_: str) -> str:
    if value is None:
        return "NULL"
    if type_ == "TIMESTAMP" and isinstance(value, int):
        return f"'{format_timestamp(value)}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).upper() if isinstance(value, bool) else str(value)


def show_conditions(static: Expr | None, stream: Expr | None) -> list[str]:
    """What decides about a stream's sensors, and about their readings."""
    return [
        "initial scan: " + ("every sensor" if static is None else show(static)),
        "stream predicate: " + ("none" if stream is None else show(stream)),
    ]


def amount(count: int, one: str, many: str) -> str:
    """`1 query`, `2 queries`."""
    return f"{count} {one if count == 1 else many}"


def show_outputs(outputs: Sequence[Output]) -> str:
    return ", ".join(show_output(output, show(output.expr)) for output in outputs)


def show_output(output: Output, expression: str) -> str:
    return f"{output.name} {output.type}" + ("" if output.name == expression else f" = {expression}")
