"""Plans and their stages as people read them."""

from __future__ import annotations

from penstock.operators.expr import Call, Column, Expr, Literal, UserCall
from penstock.operators.windows import EVERYTHING, Window
from penstock.sql.dialect import sql_of
from penstock.sql.plan import Plan, Relation, SelectPlan
from penstock.sql.planner import bind_query, functions_of, plan_query
from penstock.sql.scope import State
from penstock.sql.statements import CreateQuery, Explain, Select, Statement, tree

_INFIX = {
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
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

_KINDS = {
    "stream": "readings of",
    "static": "static rows of",
    "ordinary": "table",
    "system": "system table",
    "query": "answers of query",
}


def explain(plan: Plan, state: State) -> str:
    """How a plan runs, one fact a line."""
    if isinstance(plan, SelectPlan):
        return "\n".join(_select_lines(plan, state))
    lines = [f"Spark SQL: {plan.reason}"]
    for relation in plan.relations:
        lines += _relation_lines(relation)
    lines.append("  output: " + ", ".join(f"{name} {type_}" for name, type_ in plan.outputs))
    if plan.inlined:
        lines.append("  written out: " + ", ".join(f'query "{name}"' for name in plan.inlined))
    if plan.functions:
        lines.append("  functions: " + ", ".join(plan.functions))
    lines.append(f"  text: {plan.sql}")
    return "\n".join(lines)


def _select_lines(plan: SelectPlan, state: State) -> list[str]:
    table = state.tables_by_id[plan.table_id].name
    lines = [
        f'shared pass over the stream of "{table}"',
        f"  window: {show_window(plan.window)}",
        "  initial scan: " + (show(plan.static_predicate) if plan.static_predicate is not None else "every sensor"),
        "  stream predicate: " + (show(plan.stream_predicate) if plan.stream_predicate is not None else "none"),
        "  output: " + ", ".join(_output(o.name, str(o.type), show(o.expr)) for o in plan.outputs),
    ]
    functions = functions_of(plan)
    return [*lines, "  functions: " + ", ".join(functions)] if functions else lines


def _output(name: str, type_: str, expression: str) -> str:
    return f"{name} {type_}" if name == expression else f"{name} {type_} = {expression}"


def _relation_lines(relation: Relation) -> list[str]:
    lines = [f'  {relation.name}: {_KINDS[relation.kind]} "{relation.table}"']
    if relation.window is not None:
        lines.append(f"    window: {show_window(relation.window)}")
    if relation.static_predicate is not None:
        lines.append(f"    initial scan: {show(relation.static_predicate)}")
    return lines


def show_window(window: Window) -> str:
    return "everything that is kept" if window == EVERYTHING else str(window)


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
        case Call("not", (value,)):
            return f"NOT {show(value, True)}"
        case Call("in", (value, *items)):
            return f"{show(value, True)} IN ({', '.join(show(i) for i in items)})"
        case Call(operation, arguments) if operation in _INFIX:
            text = f" {_INFIX[operation]} ".join(show(a, True) for a in arguments)
            return f"({text})" if nested else text
        case Call(operation, arguments):
            return f"{operation}({', '.join(show(a) for a in arguments)})"
    raise AssertionError(expr)


def _literal(value: object, type_: str) -> str:
    from penstock.clock import format_timestamp

    if value is None:
        return "NULL"
    if type_ == "TIMESTAMP" and isinstance(value, int):
        return f"'{format_timestamp(value)}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).upper() if isinstance(value, bool) else str(value)


def stages(statement: Statement, state: State, standing: bool = False) -> str:
    """Every stage of a statement: what was read, the bound tree and the plan."""
    lines = ["statement", tree(statement, depth=1)]
    select: Select | None = None
    if isinstance(statement, Select):
        select = statement
    elif isinstance(statement, CreateQuery):
        select, standing = statement.select, True
    elif isinstance(statement, Explain) and isinstance(statement.target, Select):
        select = statement.target
    if select is not None:
        bound = bind_query(select, state, standing)
        columns = ", ".join(f"{field.name} {field.type}" for field in bound.fields)
        lines += ["bound", f"  columns: {columns}", f"  tree: {sql_of(bound.query)}"]
        lines += ["plan", *("  " + line for line in explain(plan_query(select, state, standing), state).splitlines())]
    return "\n".join(lines)
