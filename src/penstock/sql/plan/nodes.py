"""Plans as plain data: a selection, a window join, aggregates, or Spark SQL, and what they are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal, Self

from penstock.catalog.model import Function
from penstock.expr.expression import Expr, UserCall, calls_user, walk
from penstock.expr.windows import AnyWindow, JoinWindows, TimeWindow, Window
from penstock.operators.aggregate.partials.cell_sums import Panes
from penstock.operators.mining.registry import FUNCTIONS as MINING
from penstock.operators.resample.nearest import Method
from penstock.sql.plan.output import Output, Sorted
from penstock.sql.plan.window_calls import WindowCall
from penstock.types import Type


@dataclass(frozen=True, slots=True)
class Relation:
    """One reference to a source inside a SparkPlan; `{name}` stands for it in the text.

    kind: stream (readings with their static values), static (one row per live sensor), ordinary, system
    (penstock.*), state (the answer of a LATCH query, as it is), query (the answer rows of another standing query), core (the rows of the plan's own join). `window`
    bounds a stream's readings unless it is a rows window, which the text itself expresses.
    """

    name: str
    kind: Literal["stream", "static", "ordinary", "system", "state", "query", "core"]
    table: str
    window: Window | None = None
    static_predicate: Expr | None = None


@dataclass(frozen=True, slots=True)
class StreamUse:
    """One stream that a kernel's plan reads: of which table and sensors, through which window."""

    table_id: int
    static_predicate: Expr | None
    window: Window


StreamClock = tuple[int, Expr | None]  # a table, and which of its sensors

# When cycles read the history of a new or changed query: each time; only for a new one; only a long one; never. Answers
# read the history that cycles do not.
Fill = Literal["always", "once", "long", "never"]


class Plan(ABC):
    """What all plans have in common: facts that a plan overrides where it has them.

    Only the package of an operator looks further into its plans.
    """

    __slots__ = ()
    operator: ClassVar[str]  # the package of `penstock.operators` that keeps and gives the answer

    @property
    @abstractmethod
    def columns(self) -> tuple[tuple[str, Type], ...]:
        """Names and types of the answer's columns."""

    @property
    def kernel(self) -> KernelPlan | None:
        """What of the plan runs in the cycle: all of it, the join below it, or nothing."""
        return None

    @property
    def selection(self) -> SelectPlan | None:
        """The plan, if it selects single readings of one stream."""
        return None

    @property
    def aggregation(self) -> AggregatePlan | None:
        """The plan, if it aggregates the readings of one stream."""
        return None

    @property
    def window_join(self) -> JoinPlan | None:
        """The window join that the plan is or stands on."""
        return None

    @property
    def pure_join(self) -> JoinPlan | None:
        """The plan, if the results of a window join are its answer."""
        return None

    @property
    def over_results(self) -> AggregatePlan | None:
        """How the results of the plan's own join are aggregated, if they are no answer themselves."""
        return None

    @property
    def over_read(self) -> AggregatePlan | None:
        """How the results of another query's window join, the one relation, are aggregated, if that is the answer."""
        return None

    @property
    def spark(self) -> SparkPlan | None:
        """The question as a text of Spark SQL, if the plan has one."""
        return None

    @property
    def relations(self) -> tuple[Relation, ...]:
        """What a text of Spark SQL reads by name; kernels name tables by id."""
        return ()

    @property
    def scalars(self) -> tuple[ScalarSubquery, ...]:
        """Subqueries that are values in the question."""
        return ()

    @property
    def latch(self) -> str | None:
        """The name of its state without end."""
        return None

    @property
    def branches(self) -> tuple[KernelPlan, ...]:
        """Plans of queries of their own, the answers of which together are its answer (`catalog.branches`)."""
        return ()

    @property
    def functions(self) -> tuple[str, ...]:
        """The user's functions that it calls."""
        return ()

    @property
    def queries_read(self) -> tuple[str, ...]:
        """Other queries that it depends on without a relation: through which it reads rows, or the text of which it contains."""
        return ()


class KernelPlan(Plan):
    """A plan that steps of the cycle run."""

    __slots__ = ()

    @property
    def kernel(self) -> Self:
        return self

    @property
    @abstractmethod
    def uses(self) -> tuple[StreamUse, ...]:
        """The streams that it reads."""

    @property
    def tables_read(self) -> frozenset[int]:
        """All tables that it reads, also those without readings."""
        return frozenset(use.table_id for use in self.uses)

    @property
    def row_conditions(self) -> tuple[tuple[int, Expr], ...]:
        """What the cycle decides for each row, with the table that the rows are of; 0 for combinations of rows."""
        return ()

    @property
    def clocks(self) -> tuple[StreamClock, ...]:
        """The streams of which the smallest NOW is that of its answer."""
        return tuple((use.table_id, use.static_predicate) for use in self.uses)

    @property
    def windows(self) -> AnyWindow:
        """The window of its answer."""
        (use,) = self.uses
        return use.window

    @property
    def lasting(self) -> Lasting | None:
        return None

    @property
    def lookback_us(self) -> int:
        """How much further back than its window rows are needed."""
        return 0

    @property
    def final_lag_us(self) -> int | None:
        """How much older than the watermark rows are that become final. None: no state has to wait for that."""
        return None

    @property
    def fill(self) -> Fill:
        return "always"

    @property
    def calls_user_code(self) -> bool:
        """Whether only workers can find or show its rows."""
        return False


def _columns(outputs: tuple[Output, ...]) -> tuple[tuple[str, Type], ...]:
    return tuple((output.name, output.type) for output in outputs)


def _user_functions(expressions: Iterable[Expr | None]) -> tuple[str, ...]:
    calls = {node.function for e in expressions if e is not None for node in walk(e) if isinstance(node, UserCall)}
    return tuple(sorted(calls))


@dataclass(frozen=True, slots=True)
class Lasting:
    """That a stream predicate has to have been true without a break, per sensor; `beside` is what else rows satisfy."""

    us: int
    beside: Expr | None = None


@dataclass(frozen=True, slots=True)
class SelectPlan(KernelPlan):
    """Rows of one stream that satisfy both predicates inside the window, projected.

    A row enters in the cycle that reads it from the log and leaves with the window. Late rows enter when
    they come, if their time lies inside. `static_predicate` is decided per sensor, before any reading.
    With `lasting` rows also leave and come back when a late row breaks or mends what has to last. `beside` are other streams
    that hold back its NOW, as in a branch of UNION ALL.
    With `keep_us` a new subscriber begins with the rows of a window that begins so much earlier.
    """

    operator: ClassVar[str] = "select"
    table_id: int
    outputs: tuple[Output, ...]
    window: Window
    static_predicate: Expr | None = None
    stream_predicate: Expr | None = None
    lasting: Lasting | None = None
    beside: tuple[StreamClock, ...] = ()
    keep_us: int | None = None

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        return _columns(self.outputs)

    @property
    def clocks(self) -> tuple[StreamClock, ...]:
        return tuple(dict.fromkeys([(self.table_id, self.static_predicate), *self.beside]))

    @property
    def selection(self) -> SelectPlan:
        return self

    @property
    def calls_user_code(self) -> bool:
        predicate = self.stream_predicate
        return (predicate is not None and calls_user(predicate)) or any(calls_user(o.expr) for o in self.outputs)

    @property
    def functions(self) -> tuple[str, ...]:
        beside = self.lasting.beside if self.lasting is not None else None
        outputs = (output.expr for output in self.outputs)
        return _user_functions((*outputs, self.static_predicate, self.stream_predicate, beside))

    @property
    def fill(self) -> Fill:
        """Matches that depend on user code, or on counts of rows, only workers can find."""
        return "long" if isinstance(self.window, TimeWindow) and not self.calls_user_code else "always"

    @property
    def lookback_us(self) -> int:
        """Rows before the window say since when a condition lasts, and new subscribers receive some."""
        return (self.lasting.us if self.lasting is not None else 0) + (self.keep_us or 0)

    @property
    def final_lag_us(self) -> int | None:
        return 0 if self.lasting is not None else None

    @property
    def uses(self) -> tuple[StreamUse, ...]:
        return (StreamUse(self.table_id, self.static_predicate, self.window),)

    @property
    def row_conditions(self) -> tuple[tuple[int, Expr], ...]:
        return () if self.stream_predicate is None else ((self.table_id, self.stream_predicate),)


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
class JoinPlan(KernelPlan):
    """Combinations of rows, one per input, inside each other's windows. One input alone has tables beside it, and no key or condition.

    `bounds[i][j]` is how much later (microseconds) input j's row may be than input i's, tightened over all paths; None:
    any. `conditions` and `outputs` name columns as alias.column. `algorithm` is what a hint asks for.
    `missing` says what becomes of a row of the first input without a partner once its window has passed: nothing
    (inner), an answer with NULLs (left), or that is the only answer (anti); then there are two inputs and no tables.
    `tables` are joined one after the other once a combination of readings is complete.
    """

    operator: ClassVar[str] = "join"
    inputs: tuple[JoinInput, ...]
    bounds: tuple[tuple[int | None, ...], ...]
    conditions: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    algorithm: str | None = None
    missing: Literal["inner", "left", "anti"] = "inner"
    tables: tuple[JoinTable, ...] = ()

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        return _columns(self.outputs)

    @property
    def window_join(self) -> JoinPlan:
        return self

    @property
    def pure_join(self) -> JoinPlan:
        return self

    @property
    def functions(self) -> tuple[str, ...]:
        inputs = (e for i in self.inputs for e in (i.static_predicate, i.stream_predicate, *i.keys))
        tables = (e for t in self.tables for e in (t.predicate, *chain(*t.keys), *t.conditions))
        return _user_functions((*(o.expr for o in self.outputs), *self.conditions, *inputs, *tables))

    @property
    def uses(self) -> tuple[StreamUse, ...]:
        return tuple(StreamUse(i.table_id, i.static_predicate, i.window) for i in self.inputs)

    @property
    def row_conditions(self) -> tuple[tuple[int, Expr], ...]:
        of_inputs = tuple((i.table_id, i.stream_predicate) for i in self.inputs if i.stream_predicate is not None)
        return *of_inputs, *((0, c) for c in chain(self.conditions, *(t.conditions for t in self.tables)))

    @property
    def final_lag_us(self) -> int | None:
        return self.bounds[0][1] if self.missing != "inner" else None

    @property
    def tables_read(self) -> frozenset[int]:
        return frozenset({each.table_id for each in self.tables} | {each.table_id for each in self.inputs})

    @property
    def windows(self) -> AnyWindow:
        return JoinWindows(tuple(i.window for i in self.inputs))


def max_or_none(values: Iterable[int | None]) -> int | None:
    """The largest; None where one is."""
    found = list(values)
    return None if None in found else max((value for value in found if value is not None), default=None)


ONLY_IN_SLICES = frozenset({"approx_histogram", "approx_histogram_error"})
"""Aggregates that Spark SQL has no words for."""
WINDOW_START = "window_start"
WINDOW_END = "window_end"
UNNESTED = "unnested.element"


def key_name(place: int) -> str:
    return f"key.{place}"


def aggregate_name(place: int) -> str:
    return f"aggregate.{place}"


def scalar_name(place: int) -> str:
    return f"scalar.{place}"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One call of an aggregate; without arguments it counts rows. `parameter`: the fraction of a
    percentile; of an approximation what is special of it, its error, the width of panes and how long cells stay fine.
    `options`: the named arguments of a function of a series, all of them. `code`: that of a user aggregate.
    """

    function: str
    arguments: tuple[Expr, ...]
    type: Type
    parameter: float | tuple[float, ...] | None = None
    options: tuple[tuple[str, Any], ...] = ()
    code: Function | None = None

    @property
    def is_answer_only(self) -> bool:
        """Whether Spark SQL has no words for it."""
        return self.function in MINING or self.function in ONLY_IN_SLICES or self.code is not None

    @property
    def every_us(self) -> int:
        """The width of the slots that a function of a series sees; 0: there are none."""
        return int(dict(self.options).get("every") or 0)


@dataclass(frozen=True, slots=True)
class CorrelatedGroups:
    """Which rows an inner aggregate picks for the answers of an aggregation with groups.

    The inner aggregate is taken per the keys at the places `inner`, over all panes; the answer has the first `outer` keys, the others
    only tell inner aggregates apart. With `per_window` it is taken per pane, too. `rows` is the place of the aggregate that counts picked rows: a group without any has no answer.
    """

    inner: tuple[int, ...]
    outer: int
    rows: int
    per_window: bool = False


@dataclass(frozen=True, slots=True)
class AggregatePlan(KernelPlan):
    """Aggregates over the rows of one stream that satisfy both predicates inside the window, per group.

    Emits one row per group that has rows, without keys always one. With `panes` a group has a row for each pane that holds
    rows of it. Late rows are part of the answer from the cycle on that reads them. `outputs` and `having` name keys,
    aggregates, subqueries and the edges of panes as `key_name`, `aggregate_name`, `scalar_name`, WINDOW_START and WINDOW_END. Rows that
    `having` leaves have values of the window functions `over`, which outputs and `qualify` name by `window_name`. With
    `unnest`, an array over the same names, a row that `having` leaves comes once per element, which is UNNESTED. With
    `latch`, the name of a state of its own, rows count for ever, also when retention has taken them; where they begin is in `stream_predicate`.
    """

    operator: ClassVar[str] = "aggregate"
    table_id: int
    keys: tuple[Expr, ...]
    aggregates: tuple[AggregateCall, ...]
    outputs: tuple[Output, ...]
    window: Window
    static_predicate: Expr | None = None
    stream_predicate: Expr | None = None
    having: Expr | None = None
    over: tuple[WindowCall, ...] = ()
    qualify: Expr | None = None
    panes: Panes | None = None
    session_us: int = (
        0  # with it, panes of a group with readings at most so far apart are one session; 0: panes are as they are
    )
    own_windows: tuple[int | None, ...] = ()  # per aggregate, over how much of the window's end, if not all
    latch: str | None = None
    reads: str | None = None  # the query through which rows are read, so that they come a cycle later
    sorted: Sorted | None = None  # None: by window and key, all of them
    picking: CorrelatedGroups | None = None  # of a correlated aggregate with keys or panes
    scalars: tuple[ScalarSubquery, ...] = ()  # their values stand in `outputs`, `having` and `sorted`
    unnest: Expr | None = None
    landmarks: bool = False  # panes begin at the times that the only subquery gives
    by: tuple[Expr, ...] = ()  # one where a function sees a series per value of it: cells have it as a further key
    beside: tuple[StreamClock, ...] = ()  # other streams that hold back its NOW, as in a branch of UNION ALL

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        return _columns(self.outputs)

    @property
    def clocks(self) -> tuple[StreamClock, ...]:
        return tuple(dict.fromkeys([(self.table_id, self.static_predicate), *self.beside]))

    @property
    def aggregation(self) -> AggregatePlan:
        return self

    @property
    def queries_read(self) -> tuple[str, ...]:
        return () if self.reads is None else (self.reads,)

    @property
    def uses(self) -> tuple[StreamUse, ...]:
        return (StreamUse(self.table_id, self.static_predicate, self.window),)

    @property
    def row_conditions(self) -> tuple[tuple[int, Expr], ...]:
        return () if self.stream_predicate is None else ((self.table_id, self.stream_predicate),)

    @property
    def fill(self) -> Fill:
        """Retention cannot delete what a commit record holds, so cycles read it for a state without end."""
        return "never" if self.latch is None else "once"

    @property
    def functions(self) -> tuple[str, ...]:
        calls = chain(self.aggregates, *(scalar.plan.aggregates for scalar in self.scalars))
        return tuple(sorted({call.code.name for call in calls if call.code is not None}))

    @property
    def has_series(self) -> bool:
        """Whether some of its values are found in a series."""
        return any(call.options for call in self.aggregates)

    @property
    def is_answer_only(self) -> bool:
        """Whether no text of Spark SQL says what it does, so that readers have only its answer."""
        per_window = self.picking is not None and self.picking.per_window
        return per_window or self.landmarks or any(call.is_answer_only for call in self.aggregates)

    @property
    def is_approximate(self) -> bool:
        """Whether some of its values are estimates."""
        return any(isinstance(call.parameter, tuple) for call in self.aggregates)


@dataclass(frozen=True, slots=True)
class ScalarSubquery:
    """A subquery that is one value: aggregates without keys over the same table and at the same NOW as the question around it.

    The value is that of the plan's only output, NULL where it has no row. `inherits`: its window is the question's, also when that
    changes; the plan has it as of now.
    """

    plan: AggregatePlan
    inherits: bool


@dataclass(frozen=True, slots=True)
class JoinAggregatePlan(Plan):
    """Aggregates over the results of a window join. All its inputs have the same window; the join runs in its step.

    Emits what an `AggregatePlan` emits. Keys and arguments of `top` name columns as the join's outputs do (alias.column); its
    table and window say nothing. The time of a result, for panes, is the latest of its tuples; a result
    is inside the window if all of them are. A result that comes late is part of the answer from the cycle on that finds it.
    """

    operator: ClassVar[str] = "join_aggregate"
    join: JoinPlan
    top: AggregatePlan

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.top.outputs

    @property
    def kernel(self) -> JoinPlan:
        return self.join

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        return _columns(self.outputs)

    @property
    def window_join(self) -> JoinPlan:
        return self.join

    @property
    def over_results(self) -> AggregatePlan:
        return self.top

    @property
    def reach_us(self) -> int | None:
        """How much older than a result its oldest tuple may be; None: any time."""
        return max_or_none(bound for row in self.join.bounds for bound in row)

    @property
    def scalars(self) -> tuple[ScalarSubquery, ...]:
        return self.top.scalars

    @property
    def functions(self) -> tuple[str, ...]:
        return self.join.functions


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One of count, sum, avg, min and max, of an expression over the columns of the query that is read."""

    function: str
    argument: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class OnDemand:
    """Aggregates over another query's answer, by its own time; one row. `outputs` name them #0, #1, ...

    `window` None: over whatever the query's own window shows.
    """

    query: str
    window: TimeWindow | None
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class SparkPlan(Plan):
    """Spark SQL text over relations. Re-evaluated as a whole; `reason` says why no kernel covers it.

    `inlined` are the queries that it contains the text of. `core` is the window join below it, if it has one that runs in the
    cycle: then only what stands on top is evaluated again.
    """

    operator: ClassVar[str] = "sparksql"
    sql: str
    relations: tuple[Relation, ...] = field()  # or the property of `Plan` would be its default
    outputs: tuple[tuple[str, Type], ...]
    reason: str
    append_only: bool = False
    functions: tuple[str, ...] = ()
    inlined: tuple[str, ...] = ()
    core: JoinPlan | None = None

    @property
    def kernel(self) -> JoinPlan | None:
        return self.core

    @property
    def window_join(self) -> JoinPlan | None:
        return self.core

    @property
    def queries_read(self) -> tuple[str, ...]:
        return self.inlined

    @property
    def spark(self) -> SparkPlan:
        return self

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        return self.outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePlan(SparkPlan):
    """Aggregates, asked once, over another query's answer: a tree over that answer gives them without Spark where it can."""

    operator: ClassVar[str] = "tree"
    on_demand: OnDemand


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAggregatePlan(SparkPlan):
    """Aggregates over the results of the window join that its one relation reads; `top` is in that join's names."""

    operator: ClassVar[str] = "query_aggregate"
    top: AggregatePlan

    @property
    def over_read(self) -> AggregatePlan:
        return self.top


def resample_name(place: int) -> str:
    return f"resample.{place}"


@dataclass(frozen=True, slots=True)
class ResampleCall:
    """One RESAMPLE: a value over the columns of the stream that is resampled, how far from a time it may be, and how."""

    value: Expr
    us: int
    method: Method
    type: Type


@dataclass(frozen=True, slots=True)
class Resampling:
    """A value of one stream at each reading of another that satisfies its predicate inside its window.

    Emits one row per such reading. A late reading of either stream, and for LINEAR and MEAN the next one, changes rows that were
    there already. `times` and `values` say which relation of the plan is which stream: windows and initial scans are theirs.
    Predicates hold for readings of one stream alone; `keys` are pairs, of times and of values, that have to be equal.
    `outputs` and `having` name columns of the first stream, and calls by `resample_name`.
    """

    times: int
    values: int
    calls: tuple[ResampleCall, ...]
    outputs: tuple[Output, ...]
    times_predicate: Expr | None = None
    values_predicate: Expr | None = None
    keys: tuple[tuple[Expr, Expr], ...] = ()
    having: Expr | None = None
    sorted: Sorted | None = None  # None: as they stand in the log

    @property
    def back_us(self) -> int:
        """How much earlier than a time a reading may be that counts there."""
        return max(call.us for call in self.calls)

    @property
    def ahead_us(self) -> int:
        """How much later."""
        return max((call.us for call in self.calls if call.method != "previous"), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResamplePlan(SparkPlan):
    """RESAMPLE where the answer is found in the log, asked once or standing."""

    operator: ClassVar[str] = "resample"
    resample: Resampling
