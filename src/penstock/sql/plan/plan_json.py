"""Plans as JSON, as they stand in the journal."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from penstock.errors import PenstockError
from penstock.expr import expression as expressions
from penstock.expr import windows
from penstock.expr.expression import Expr
from penstock.expr.windows import TimeWindow
from penstock.operators.aggregate.partials.cell_sums import Panes
from penstock.operators.registry import OPERATORS, part_of
from penstock.sql.plan.nodes import (
    AggregateCall,
    AggregatePlan,
    CorrelatedGroups,
    JoinAggregatePlan,
    JoinInput,
    JoinPlan,
    JoinTable,
    Lasting,
    Plan,
    QueryAggregatePlan,
    Relation,
    ResamplePlan,
    ScalarSubquery,
    SelectPlan,
    SparkPlan,
)
from penstock.sql.plan.output import output_json, outputs_of
from penstock.sql.plan.resample import resample_json, resample_of
from penstock.sql.plan.sorting import sorted_json, sorted_of
from penstock.types import parse_type


def has_join(stored: bytes) -> bool:
    """Whether a stored plan is or stands on a window join. Its text tells: quotes inside of strings are escaped."""
    return b'"kind":"join"' in stored


def has_latch(stored: bytes) -> bool:
    """Whether a stored plan keeps a state without end."""
    return b'"latch":"' in stored


def selected_table(stored: bytes) -> int:
    """The stream that cycles read for a stored plan; of the rest of a selection or aggregation nothing is read."""
    found = _TABLE.match(stored)
    if found is not None:
        return int(found[1])
    kernel = plan_from_json(orjson.loads(stored)).kernel
    assert kernel is not None, stored[:80]
    return kernel.uses[0].table_id


_TABLE = re.compile(rb'\{"kind":"(?:select|aggregate)","table":(\d+)')


def plan_to_json(plan: Plan) -> dict[str, Any]:
    if isinstance(plan, SelectPlan):
        return {
            "kind": "select",
            "table": plan.table_id,
            "outputs": [output_json(o) for o in plan.outputs],
            "window": windows.to_json(plan.window),
            "static": _expr_json(plan.static_predicate),
            "stream": _expr_json(plan.stream_predicate),
            **_lasting_json(plan.lasting),
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
            "outputs": [output_json(o) for o in plan.outputs],
            "algorithm": plan.algorithm,
            "missing": plan.missing,
            "tables": [_table_json(t) for t in plan.tables],
        }
    if isinstance(plan, AggregatePlan):
        return _aggregate_json(plan)
    if isinstance(plan, JoinAggregatePlan):
        return {"kind": "join_aggregate", "join": plan_to_json(plan.join), "top": _aggregate_json(plan.top)}
    if not isinstance(plan, SparkPlan):
        fields: dict[str, Any] = part_of(plan.operator, "plan").to_json(plan)
        return {"kind": plan.operator, **fields}
    return {
        "kind": "spark",
        "text": plan.sql,
        "linear": True,
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
        **({"top": _aggregate_json(plan.top)} if isinstance(plan, QueryAggregatePlan) else {}),
        **({"resampled": resample_json(plan.resample)} if isinstance(plan, ResamplePlan) else {}),
    }


def plan_from_json(data: dict[str, Any]) -> Plan:
    if data["kind"] == "select":
        return SelectPlan(
            table_id=data["table"],
            outputs=outputs_of(data["outputs"]),
            window=windows.from_json(data["window"]),
            static_predicate=_expr_of(data["static"]),
            stream_predicate=_expr_of(data["stream"]),
            lasting=_lasting_of(data.get("lasting")),
        )
    if data["kind"] == "join":
        return JoinPlan(
            inputs=tuple(_input_of(i) for i in data["inputs"]),
            bounds=tuple(tuple(row) for row in data["bounds"]),
            conditions=tuple(expressions.from_json(c) for c in data["conditions"]),
            outputs=outputs_of(data["outputs"]),
            algorithm=data["algorithm"],
            missing=data["missing"],
            tables=tuple(_table_of(t) for t in data.get("tables", ())),
        )
    if data["kind"] == "aggregate":
        return _aggregate_of(data)
    if data["kind"] == "join_aggregate":
        join = _core_of(data["join"])
        assert join is not None
        return JoinAggregatePlan(join, _aggregate_of(data["top"]))
    if data["kind"] in OPERATORS:
        plan: Plan = part_of(data["kind"], "plan").from_json(data)
        return plan
    if data["kind"] != "spark":
        detail = f'a query has a plan of the kind "{data["kind"]}"'
        raise PenstockError("folder_too_new", detail)
    make: Callable[..., SparkPlan] = SparkPlan
    if "top" in data:
        make = partial(QueryAggregatePlan, top=_aggregate_of(data["top"]))
    elif "resampled" in data:
        make = partial(ResamplePlan, resample=resample_of(data["resampled"]))
    return make(
        sql=_text_of(data),
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


# What could take more than linear time in texts of before.
_COSTLY = re.compile(
    r"\b(?:[RI]?LIKE\b|(?:regexp_\w+|split|split_part|substring_index|try_parse_url|levenshtein|jaro_winkler_similarity|trim|locate|"
    r"contains|replace|array_distinct|array_union|array_intersect|array_except|arrays_overlap)\()",
    re.IGNORECASE,
)


def _text_of(data: dict[str, Any]) -> str:
    """The text of a plan, empty where it is planned again before it runs: see queries.replan.

    Version 1 has it under another name, with holes in it. Later ones may have functions that backtrack.
    """
    text: str = data.get("text", "")
    return text if data.get("linear") or not _COSTLY.search(text) else ""


def _lasting_json(lasting: Lasting | None) -> dict[str, Any]:
    return {} if lasting is None else {"lasting": {"us": lasting.us, "beside": _expr_json(lasting.beside)}}


def _lasting_of(data: dict[str, Any] | None) -> Lasting | None:
    return None if data is None else Lasting(data["us"], _expr_of(data["beside"]))


def _aggregate_json(plan: AggregatePlan) -> dict[str, Any]:
    return {
        "kind": "aggregate",
        "table": plan.table_id,
        "keys": [expressions.to_json(k) for k in plan.keys],
        "aggregates": [
            [a.function, [expressions.to_json(e) for e in a.arguments], str(a.type), a.parameter]
            for a in plan.aggregates
        ],
        "outputs": [output_json(o) for o in plan.outputs],
        "window": windows.to_json(plan.window),
        "static": _expr_json(plan.static_predicate),
        "stream": _expr_json(plan.stream_predicate),
        "having": _expr_json(plan.having),
        "panes": None if plan.panes is None else [plan.panes.width, plan.panes.step],
        **({"own": list(plan.own_windows)} if plan.own_windows else {}),
        **({"latch": plan.latch} if plan.latch is not None else {}),
        **({"reads": plan.reads} if plan.reads is not None else {}),
        **({"sorted": sorted_json(plan.sorted)} if plan.sorted is not None else {}),
        **({"picking": _picking_json(plan.picking)} if plan.picking is not None else {}),
        **({"scalars": [[_aggregate_json(s.plan), s.inherits] for s in plan.scalars]} if plan.scalars else {}),
    }


def _aggregate_of(data: dict[str, Any]) -> AggregatePlan:
    return AggregatePlan(
        table_id=data["table"],
        keys=tuple(expressions.from_json(k) for k in data["keys"]),
        aggregates=tuple(
            AggregateCall(
                function,
                tuple(expressions.from_json(e) for e in arguments),
                parse_type(type_),
                *map(_parameter_of, more),
            )
            for function, arguments, type_, *more in data["aggregates"]
        ),
        outputs=outputs_of(data["outputs"]),
        window=windows.from_json(data["window"]),
        static_predicate=_expr_of(data["static"]),
        stream_predicate=_expr_of(data["stream"]),
        having=_expr_of(data["having"]),
        panes=None if data["panes"] is None else Panes(*data["panes"]),
        own_windows=tuple(data.get("own", ())),
        latch=data.get("latch"),
        reads=data.get("reads"),
        sorted=sorted_of(data["sorted"]) if "sorted" in data else None,
        picking=_picking_of(data["picking"]) if "picking" in data else None,
        scalars=tuple(ScalarSubquery(_aggregate_of(inner), inherits) for inner, inherits in data.get("scalars", ())),
    )


def _picking_json(picking: CorrelatedGroups) -> list[Any]:
    return [list(picking.inner), picking.outer, picking.rows]


def _picking_of(data: list[Any]) -> CorrelatedGroups:
    inner, outer, rows = data
    return CorrelatedGroups(tuple(inner), outer, rows)


def _parameter_of(data: Any) -> Any:
    return tuple(data) if isinstance(data, list) else data


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


def _expr_json(expr: Expr | None) -> dict[str, Any] | None:
    return None if expr is None else expressions.to_json(expr)


def _expr_of(data: dict[str, Any] | None) -> Expr | None:
    return None if data is None else expressions.from_json(data)
