"""Plans: what the pipeline runs. Plain data, stored in the journal as JSON, printed by EXPLAIN.

A `SelectPlan` runs in the shared pass, a `JoinPlan` in the join step beside it; a `SparkPlan` is whatever no kernel
covers and runs as Spark SQL, where it can over the rows of a join that runs in its step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from penstock.operators import expr as expressions
from penstock.operators import windows
from penstock.operators.expr import Expr
from penstock.operators.windows import AnyWindow, JoinWindows, TimeWindow, Window
from penstock.types import Type, parse_type


@dataclass(frozen=True, slots=True)
class Output:
    """One column of an answer."""

    name: str
    type: Type
    expr: Expr


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """Rows of one stream that satisfy both predicates inside the window, projected.

    A row enters in the cycle that reads it from the log and leaves with the window. Late rows enter when
    they come, if their time lies inside. `static_predicate` is decided per sensor, before any reading.
    """

    table_id: int
    outputs: tuple[Output, ...]
    window: Window
    static_predicate: Expr | None = None
    stream_predicate: Expr | None = None


@dataclass(frozen=True, slots=True)
class JoinInput:
    """One stream of a join: an alias of FROM, what its rows must satisfy alone, and what they are looked up by.

    Predicates and keys name plain columns of this stream. All inputs have as many keys: equal in number and type,
    pairwise equal in every combination; none where no equality spans all inputs.
    """

    alias: str
    table_id: int
    window: TimeWindow
    static_predicate: Expr | None = None
    stream_predicate: Expr | None = None
    keys: tuple[Expr, ...] = ()


TableUse = Literal["inner", "left", "exists", "missing"]


@dataclass(frozen=True, slots=True)
class JoinTable:
    """One ordinary table of a join: its rows as they are at the last tuple of a combination.

    A row has to satisfy `predicate` alone and, with the combination, every (value, column) of `keys` by equality
    and all `conditions`. Predicate and columns are in the table's own names, values and conditions say alias.column,
    of streams and of tables before this one. `use`: a combination is joined with each such row (inner), also with none
    (left), or has to have one (exists) or none (missing), which then is no part of the result.
    """

    alias: str
    table_id: int
    predicate: Expr | None = None
    keys: tuple[tuple[Expr, Expr], ...] = ()
    conditions: tuple[Expr, ...] = ()
    use: TableUse = "inner"

    @property
    def is_shown(self) -> bool:
        """Whether results have a row of it."""
        return self.use in ("inner", "left")


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """Combinations of rows, one per input, inside each other's windows.

    `bounds[i][j]` is how much later (microseconds) input j's row may be than input i's, tightened over all paths; None:
    any. `conditions` and `outputs` name columns as alias.column. `algorithm` is what a hint asks for.
    `missing` says what becomes of a row of the first input without a partner once its window has passed: nothing
    (inner), an answer with NULLs (left), or that is the only answer (anti); then there are two inputs and no tables.
    `tables` are joined one after the other once a combination of readings is complete.
    """

    inputs: tuple[JoinInput, ...]
    bounds: tuple[tuple[int | None, ...], ...]
    conditions: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    algorithm: str | None = None
    missing: Literal["inner", "left", "anti"] = "inner"
    tables: tuple[JoinTable, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamUse:
    """One stream that a kernel's plan reads: whose readings, of which sensors, through which window."""

    table_id: int
    static_predicate: Expr | None
    window: Window


def window_of(plan: SelectPlan | JoinPlan) -> AnyWindow:
    """What ALTER QUERY changes."""
    return plan.window if isinstance(plan, SelectPlan) else JoinWindows(tuple(i.window for i in plan.inputs))


@dataclass(frozen=True, slots=True)
class Relation:
    """One reference to a source inside a SparkPlan; `{name}` stands for it in the text.

    kind: stream (readings with their static values), static (one row per live sensor), ordinary, system
    (penstock.*), query (the answer rows of another standing query), core (the rows of the plan's own join). `window`
    bounds a stream's readings unless it is a rows window, which the text itself expresses.
    """

    name: str
    kind: Literal["stream", "static", "ordinary", "system", "query", "core"]
    table: str
    window: Window | None = None
    static_predicate: Expr | None = None


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """Spark SQL text over relations. Re-evaluated as a whole; `reason` says why no kernel covers it.

    `functions` are the user's functions it calls, `inlined` the queries whose text became part of it. `core` is the window
    join below it, if it has one that runs in the cycle: then only what stands on top is evaluated again.
    """

    sql: str
    relations: tuple[Relation, ...]
    outputs: tuple[tuple[str, Type], ...]
    reason: str
    append_only: bool = False
    functions: tuple[str, ...] = ()
    inlined: tuple[str, ...] = ()
    core: JoinPlan | None = None


Plan = SelectPlan | JoinPlan | SparkPlan


def kernel_of(plan: Plan) -> SelectPlan | JoinPlan | None:
    """What of a plan runs in the cycle: all of it, its core, or nothing."""
    return plan.core if isinstance(plan, SparkPlan) else plan


def join_of(plan: Plan) -> JoinPlan | None:
    """The window join that a plan is or stands on."""
    kernel = kernel_of(plan)
    return kernel if isinstance(kernel, JoinPlan) else None


def stream_uses(plan: Plan) -> tuple[StreamUse, ...]:
    """The streams that kernels read for a plan."""
    kernel = kernel_of(plan)
    if isinstance(kernel, SelectPlan):
        return (StreamUse(kernel.table_id, kernel.static_predicate, kernel.window),)
    return () if kernel is None else tuple(StreamUse(i.table_id, i.static_predicate, i.window) for i in kernel.inputs)


def tables_under(plan: SelectPlan | JoinPlan) -> set[int]:
    """All tables that a kernel cannot run without, by id."""
    joined = {each.table_id for each in plan.tables} if isinstance(plan, JoinPlan) else set()
    return joined | {use.table_id for use in stream_uses(plan)}


def has_join(data: dict[str, Any]) -> bool:
    """Whether a stored plan is or stands on a window join."""
    return data["kind"] == "join" or data.get("core") is not None


def selected_table(data: dict[str, Any]) -> int:
    """The stream that a stored selection reads; of the rest of its plan nothing is read."""
    assert data["kind"] == "select"
    table_id: int = data["table"]
    return table_id


def plan_to_json(plan: Plan) -> dict[str, Any]:
    if isinstance(plan, SelectPlan):
        return {
            "kind": "select",
            "table": plan.table_id,
            "outputs": [_output_json(o) for o in plan.outputs],
            "window": windows.to_json(plan.window),
            "static": _expr_json(plan.static_predicate),
            "stream": _expr_json(plan.stream_predicate),
        }
    if isinstance(plan, JoinPlan):
        return {
            "kind": "join",
            "inputs": [
                {
                    "alias": i.alias,
                    "table": i.table_id,
                    "window": windows.to_json(i.window),
                    "static": _expr_json(i.static_predicate),
                    "stream": _expr_json(i.stream_predicate),
                    "keys": [expressions.to_json(k) for k in i.keys],
                }
                for i in plan.inputs
            ],
            "bounds": [list(row) for row in plan.bounds],
            "conditions": [expressions.to_json(c) for c in plan.conditions],
            "outputs": [_output_json(o) for o in plan.outputs],
            "algorithm": plan.algorithm,
            "missing": plan.missing,
            "tables": [_table_json(t) for t in plan.tables],
        }
    return {
        "kind": "spark",
        "sql": plan.sql,
        "relations": [
            {
                "name": r.name,
                "kind": r.kind,
                "table": r.table,
                "window": windows.to_json(r.window) if r.window else None,
                "static": _expr_json(r.static_predicate),
            }
            for r in plan.relations
        ],
        "outputs": [[name, str(type_)] for name, type_ in plan.outputs],
        "reason": plan.reason,
        "append_only": plan.append_only,
        "functions": list(plan.functions),
        "inlined": list(plan.inlined),
        "core": None if plan.core is None else plan_to_json(plan.core),
    }


def plan_from_json(data: dict[str, Any]) -> Plan:
    if data["kind"] == "select":
        return SelectPlan(
            table_id=data["table"],
            outputs=_outputs_of(data["outputs"]),
            window=windows.from_json(data["window"]),
            static_predicate=_expr_of(data["static"]),
            stream_predicate=_expr_of(data["stream"]),
        )
    if data["kind"] == "join":
        return JoinPlan(
            inputs=tuple(_input_of(i) for i in data["inputs"]),
            bounds=tuple(tuple(row) for row in data["bounds"]),
            conditions=tuple(expressions.from_json(c) for c in data["conditions"]),
            outputs=_outputs_of(data["outputs"]),
            algorithm=data["algorithm"],
            missing=data["missing"],
            tables=tuple(_table_of(t) for t in data.get("tables", ())),
        )
    return SparkPlan(
        sql=data["sql"],
        relations=tuple(
            Relation(
                name=r["name"],
                kind=r["kind"],
                table=r["table"],
                window=windows.from_json(r["window"]) if r["window"] else None,
                static_predicate=_expr_of(r["static"]),
            )
            for r in data["relations"]
        ),
        outputs=tuple((name, parse_type(type_)) for name, type_ in data["outputs"]),
        reason=data["reason"],
        append_only=data["append_only"],
        functions=tuple(data.get("functions", ())),
        inlined=tuple(data.get("inlined", ())),
        core=_core_of(data.get("core")),
    )


def _core_of(data: dict[str, Any] | None) -> JoinPlan | None:
    core = None if data is None else plan_from_json(data)
    assert core is None or isinstance(core, JoinPlan)
    return core


def _input_of(data: dict[str, Any]) -> JoinInput:
    window = windows.from_json(data["window"])
    assert isinstance(window, TimeWindow)
    return JoinInput(
        alias=data["alias"],
        table_id=data["table"],
        window=window,
        static_predicate=_expr_of(data["static"]),
        stream_predicate=_expr_of(data["stream"]),
        keys=tuple(expressions.from_json(k) for k in data["keys"]),
    )


def _table_json(table: JoinTable) -> dict[str, Any]:
    return {
        "alias": table.alias,
        "table": table.table_id,
        "predicate": _expr_json(table.predicate),
        "keys": [[expressions.to_json(e) for e in key] for key in table.keys],
        "conditions": [expressions.to_json(c) for c in table.conditions],
        "use": table.use,
    }


def _table_of(data: dict[str, Any]) -> JoinTable:
    return JoinTable(
        alias=data["alias"],
        table_id=data["table"],
        predicate=_expr_of(data["predicate"]),
        keys=tuple((expressions.from_json(value), expressions.from_json(own)) for value, own in data["keys"]),
        conditions=tuple(expressions.from_json(c) for c in data["conditions"]),
        use=data["use"],
    )


def _output_json(output: Output) -> list[Any]:
    return [output.name, str(output.type), expressions.to_json(output.expr)]


def _outputs_of(data: list[list[Any]]) -> tuple[Output, ...]:
    return tuple(Output(name, parse_type(type_), expressions.from_json(e)) for name, type_, e in data)


def _expr_json(expr: Expr | None) -> dict[str, Any] | None:
    return None if expr is None else expressions.to_json(expr)


def _expr_of(data: dict[str, Any] | None) -> Expr | None:
    return None if data is None else expressions.from_json(data)
