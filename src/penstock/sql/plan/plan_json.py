"""Plans as JSON, as they stand in the journal: a table per record says its keys there, and how values are written and read."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from penstock.catalog.definition_json import function_from_json, to_json
from penstock.catalog.model import PlanText
from penstock.errors import check_known, too_new
from penstock.expr import expression as expressions
from penstock.expr import windows
from penstock.operators.aggregate.partials.cell_sums import Panes
from penstock.operators.registry import OPERATORS, part_of
from penstock.sql.plan import nodes
from penstock.sql.plan.output import Output, Sorted, Sorting
from penstock.sql.plan.window_calls import OrderKey, WindowCall
from penstock.types import parse_type


def has_join(stored: PlanText) -> bool:
    """Whether a stored plan is or stands on a window join. Its text tells: quotes inside of strings are escaped."""
    return _stands_on_join(stored.shape)


@lru_cache(maxsize=2048)
def _stands_on_join(shape: bytes) -> bool:
    return b'"kind":"join"' in shape


def has_latch(stored: PlanText) -> bool:
    """Whether a stored plan keeps a state without end."""
    return b'"latch":"' in stored.shape


def selected_table(stored: PlanText) -> int:
    """The stream that cycles read for a stored plan; of the rest of a selection or aggregation nothing is read."""
    found = _TABLE.match(stored.shape)
    if found is not None:
        return int(found[1])
    kernel = plan_from_json(orjson.loads(stored.text)).kernel
    assert kernel is not None, stored.shape[:80]
    return kernel.uses[0].table_id


_TABLE = re.compile(rb'\{"kind":"(?:select|aggregate)","table":(\d+)')


def plan_to_json(plan: nodes.Plan) -> dict[str, Any]:
    if plan.operator in _PLANS:
        fields = _PLANS[plan.operator].write(plan)
    elif isinstance(plan, nodes.SparkPlan):
        fields = _SPARK.write(plan)
        return {"kind": "spark", "text": fields.pop("text"), "linear": True, **fields}
    else:
        fields = part_of(plan.operator, "plan").to_json(plan)
    return {"kind": plan.operator, **fields}


def plan_from_json(data: dict[str, Any]) -> nodes.Plan:
    kind = data["kind"]
    if kind not in _PLANS and kind not in OPERATORS and kind != "spark":
        raise too_new(f'a query has a plan of the kind "{kind}"')
    if kind == "spark":
        plan: nodes.Plan = _SPARK.read({**data, "text": _text_of(data)})
    elif kind in _PLANS:
        plan = _PLANS[kind].read(data)
    else:
        plan = part_of(kind, "plan").from_json(data)
    return plan


# What could take more than linear time in texts of before.
_COSTLY = re.compile(
    r"\b(?:[RI]?LIKE\b|(?:regexp_\w+|split|split_part|substring_index|try_parse_url|levenshtein|jaro_winkler_similarity|trim|locate|"
    r"contains|replace|array_distinct|array_union|array_intersect|array_except|arrays_overlap)\()",
    re.IGNORECASE,
)


def _text_of(data: dict[str, Any]) -> str:
    """The text of a plan, empty where it is planned again before it runs: see `operators.sparksql.replan`.

    Version 1 has it under another name, with holes in it. Later ones may have functions that backtrack.
    """
    text: str = data.get("text", "")
    return text if data.get("linear") or not _COSTLY.search(text) else ""


# -- how values are written and read


class Codec(NamedTuple):
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class Part(NamedTuple):
    """A field of a record, under another name in JSON. A `sparse` one is left out where the record does not have it."""

    field: str
    key: str
    codec: Codec
    sparse: bool = False


def _record(make: Callable[..., Any], *parts: Part, beside: frozenset[str] = frozenset()) -> Codec:
    """An object. A key that old journals lack gives the default of its field, and one of a newer version refuses the folder.

    `beside`: keys that the caller reads.
    """
    known = {"kind", *(part.key for part in parts), *beside}

    def write(record: Any) -> dict[str, Any]:
        values = [(part, getattr(record, part.field, None)) for part in parts]
        return {
            part.key: part.codec.write(value)
            for part, value in values
            if not part.sparse or value not in (None, (), False)
        }

    def read(data: dict[str, Any]) -> Any:
        found = {part.field: part.codec.read(data[part.key]) for part in parts if part.key in data}
        if len(found) < len(data):
            check_known(data, known, "a plan")
        return make(**found)

    return Codec(write, read)


def _row(make: Callable[..., Any], **codecs: Codec) -> Codec:
    """A list of the fields, in order; those that old journals lack are the last ones."""

    def write(record: Any) -> list[Any]:
        values = [codec.write(getattr(record, field)) for field, codec in codecs.items()]
        while values and values[-1] == []:
            values.pop()  # what most records do not have is not written
        return values

    def read(data: list[Any]) -> Any:
        if len(data) > len(codecs):
            raise too_new(f"a plan has {len(data)} values where this version knows {len(codecs)}")
        return make(*(codec.read(value) for codec, value in zip(codecs.values(), data, strict=False)))

    return Codec(write, read)


def _each(codec: Codec) -> Codec:
    return Codec(lambda items: [codec.write(i) for i in items], lambda data: tuple(codec.read(i) for i in data))


def _maybe(codec: Codec) -> Codec:
    return Codec(
        lambda value: None if value is None else codec.write(value),
        lambda data: None if data is None else codec.read(data),
    )


def _plain(*fields: str) -> list[Part]:
    """Fields that stand in JSON as they are."""
    return [Part(field, field, _PLAIN) for field in fields]


def _outputs_of(data: list[list[Any]]) -> tuple[Output, ...]:
    return _outputs_of_text(orjson.dumps(data))


@lru_cache(maxsize=256)
def _outputs_of_text(text: bytes) -> tuple[Output, ...]:
    """One for all that are written alike: thousands of queries may show the same columns. Equal constants may differ (0.0 and -0.0)."""
    outputs: tuple[Output, ...] = _each(_OUTPUT).read(orjson.loads(text))
    return outputs


_PLAIN = Codec(lambda value: value, lambda value: value)
_PLAINS = _each(_PLAIN)
_FLAG = Codec(lambda value: value or [], bool)
_PARAMETER = Codec(lambda value: value, lambda data: tuple(data) if isinstance(data, list) else data)
_TYPE = Codec(str, parse_type)
_EXPR = Codec(expressions.to_json, expressions.from_json)
_WINDOW = Codec(windows.to_json, windows.from_json)
_PLAN = Codec(plan_to_json, plan_from_json)
_OUTPUT = _row(Output, name=_PLAIN, type=_TYPE, expr=_EXPR)
_OUTPUTS = Codec(_each(_OUTPUT).write, _outputs_of)


# -- the records

_SORTED = _record(
    Sorted,
    Part("order", "order", _each(_row(Sorting, output=_PLAIN, descending=_PLAIN, nulls_first=_PLAIN))),
    *_plain("limit", "offset"),
    Part("distinct", "distinct", _PLAIN, sparse=True),
    Part("hidden", "hidden", _OUTPUTS, sparse=True),
)
sorted_json, sorted_of = _SORTED
_WINDOW_CALL = _record(
    WindowCall,
    *_plain("function"),
    Part("type", "type", _TYPE),
    Part("partition", "partition", _each(_EXPR)),
    Part("order", "order", _each(_row(OrderKey, expr=_EXPR, descending=_PLAIN, nulls_first=_PLAIN))),
    Part("arguments", "arguments", _each(_EXPR)),
    *_plain("count"),
)
WINDOW_FUNCTIONS = _record(
    dict,
    Part("over", "over", _each(_WINDOW_CALL)),
    Part("outputs", "outputs", _OUTPUTS),
    Part("qualify", "qualify", _maybe(_EXPR)),
    Part("sorted", "sorted", _maybe(_SORTED)),
    beside=frozenset({"rows", "top"}),
)
_INPUT = _record(
    nodes.JoinInput,
    Part("alias", "alias", _PLAIN),
    Part("table_id", "table", _PLAIN),
    Part("window", "window", _WINDOW),
    Part("static_predicate", "static", _maybe(_EXPR)),
    Part("stream_predicate", "stream", _maybe(_EXPR)),
    Part("keys", "keys", _each(_EXPR)),
)
_JOINED_TABLE = _record(
    nodes.JoinTable,
    Part("alias", "alias", _PLAIN),
    Part("table_id", "table", _PLAIN),
    Part("predicate", "predicate", _maybe(_EXPR)),
    Part("keys", "keys", _each(_each(_EXPR))),
    Part("conditions", "conditions", _each(_EXPR)),
    Part("use", "use", _PLAIN),
)
_RELATION = _record(
    nodes.Relation,
    *_plain("name", "kind", "table"),
    Part("window", "window", _maybe(_WINDOW)),
    Part("static_predicate", "static", _maybe(_EXPR)),
)
_RESAMPLING = _record(
    nodes.Resampling,
    *_plain("times", "values"),
    Part("calls", "calls", _each(_row(nodes.ResampleCall, value=_EXPR, us=_PLAIN, method=_PLAIN, type=_TYPE))),
    Part("outputs", "outputs", _OUTPUTS),
    Part("times_predicate", "of_times", _maybe(_EXPR)),
    Part("values_predicate", "of_values", _maybe(_EXPR)),
    Part("keys", "keys", _each(_each(_EXPR))),
    Part("having", "having", _maybe(_EXPR)),
    Part("sorted", "sorted", _maybe(_SORTED)),
)

# -- the plans

_OPTIONS = Codec(
    lambda options: [list(each) for each in options], lambda data: tuple((n, _PARAMETER.read(v)) for n, v in data)
)
_CODE = Codec(
    lambda code: [] if code is None else to_json(code), lambda data: function_from_json(data) if data else None
)
_CALL = _row(
    nodes.AggregateCall,
    function=_PLAIN,
    arguments=_each(_EXPR),
    type=_TYPE,
    parameter=_PARAMETER,
    options=_OPTIONS,
    code=_CODE,
)
_CLOCKS = _each(
    Codec(lambda clock: [clock[0], _maybe(_EXPR).write(clock[1])], lambda data: (data[0], _maybe(_EXPR).read(data[1])))
)
_LASTING = _record(nodes.Lasting, Part("us", "us", _PLAIN), Part("beside", "beside", _maybe(_EXPR)))
_PLANS = {
    nodes.SelectPlan.operator: _record(
        nodes.SelectPlan,
        Part("table_id", "table", _PLAIN),
        Part("outputs", "outputs", _OUTPUTS),
        Part("window", "window", _WINDOW),
        Part("static_predicate", "static", _maybe(_EXPR)),
        Part("stream_predicate", "stream", _maybe(_EXPR)),
        Part("lasting", "lasting", _LASTING, sparse=True),
        Part("beside", "beside", _CLOCKS, sparse=True),
        Part("keep_us", "keep", _PLAIN, sparse=True),
    ),
    nodes.JoinPlan.operator: _record(
        nodes.JoinPlan,
        Part("inputs", "inputs", _each(_INPUT)),
        Part("bounds", "bounds", _each(_PLAINS)),
        Part("conditions", "conditions", _each(_EXPR)),
        Part("outputs", "outputs", _OUTPUTS),
        *_plain("algorithm", "missing"),
        Part("tables", "tables", _each(_JOINED_TABLE)),
    ),
    nodes.AggregatePlan.operator: _record(
        nodes.AggregatePlan,
        Part("table_id", "table", _PLAIN),
        Part("keys", "keys", _each(_EXPR)),
        Part("aggregates", "aggregates", _each(_CALL)),
        Part("outputs", "outputs", _OUTPUTS),
        Part("window", "window", _WINDOW),
        Part("static_predicate", "static", _maybe(_EXPR)),
        Part("stream_predicate", "stream", _maybe(_EXPR)),
        Part("having", "having", _maybe(_EXPR)),
        Part("over", "over", _each(_WINDOW_CALL), sparse=True),
        Part("qualify", "qualify", _EXPR, sparse=True),
        Part("panes", "panes", _maybe(_row(Panes, width=_PLAIN, step=_PLAIN))),
        Part("session_us", "session", _PLAIN, sparse=True),
        Part("own_windows", "own", _PLAINS, sparse=True),
        Part("latch", "latch", _PLAIN, sparse=True),
        Part("reads", "reads", _PLAIN, sparse=True),
        Part("sorted", "sorted", _SORTED, sparse=True),
        Part(
            "picking",
            "picking",
            _row(nodes.CorrelatedGroups, inner=_PLAINS, outer=_PLAIN, rows=_PLAIN, per_window=_FLAG),
            sparse=True,
        ),
        Part("scalars", "scalars", _each(_row(nodes.ScalarSubquery, plan=_PLAN, inherits=_PLAIN)), sparse=True),
        Part("landmarks", "landmarks", _PLAIN, sparse=True),
        Part("unnest", "unnest", _EXPR, sparse=True),
        Part("by", "by", _each(_EXPR), sparse=True),
        Part("beside", "beside", _CLOCKS, sparse=True),
    ),
    nodes.JoinAggregatePlan.operator: _record(
        nodes.JoinAggregatePlan, Part("join", "join", _PLAN), Part("top", "top", _PLAN)
    ),
}


def _spark_plan(**fields: Any) -> nodes.SparkPlan:
    if "top" in fields:
        return nodes.QueryAggregatePlan(**fields)
    return nodes.ResamplePlan(**fields) if "resample" in fields else nodes.SparkPlan(**fields)


_SPARK = _record(
    _spark_plan,
    Part("sql", "text", _PLAIN),
    Part("relations", "relations", _each(_RELATION)),
    Part("outputs", "outputs", _each(Codec(lambda o: [o[0], str(o[1])], lambda data: (data[0], parse_type(data[1]))))),
    *_plain("reason", "append_only"),
    Part("functions", "functions", _PLAINS),
    Part("inlined", "inlined", _PLAINS),
    Part("core", "core", _maybe(_PLAN)),
    Part("top", "top", _PLAN, sparse=True),
    Part("resample", "resampled", _RESAMPLING, sparse=True),
    beside=frozenset({"linear", "sql"}),  # see `_text_of`
)
