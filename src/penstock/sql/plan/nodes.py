"""Plans as plain data: a selection, a window join, aggregates, or Spark SQL, and what they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.expr.expression import Expr
from penstock.expr.windows import TimeWindow, Window
from penstock.operators.aggregate.partials.cell_sums import Panes
from penstock.sql.plan.output import Output
from penstock.sql.plan.resample import ResamplePlan
from penstock.sql.plan.sorting import Sorted
from penstock.types import Type


@dataclass(frozen=True, slots=True)
class Lasting:
    """That a stream predicate has to have been true without a break, per sensor; `beside` is what else rows satisfy."""

    us: int
    beside: Expr | None = None


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """Rows of one stream that satisfy both predicates inside the window, projected.

    A row enters in the cycle that reads it from the log and leaves with the window. Late rows enter when
    they come, if their time lies inside. `static_predicate` is decided per sensor, before any reading.
    With `lasting` rows also leave and come back when a late row breaks or mends what has to last.
    """

    table_id: int
    outputs: tuple[Output, ...]
    window: Window
    static_predicate: Expr | None = None
    stream_predicate: Expr | None = None
    lasting: Lasting | None = None


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
    """Combinations of rows, one per input, inside each other's windows. One input alone has tables beside it, and no key or condition.

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


WINDOW_START = "window_start"
WINDOW_END = "window_end"


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
    """

    function: str
    arguments: tuple[Expr, ...]
    type: Type
    parameter: float | tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class CorrelatedGroups:
    """Which rows an inner aggregate picks for the answers of an aggregation with groups.

    The inner aggregate is taken per the keys at the places `inner`, over all panes; the answer has the first `outer` keys, the others
    only tell inner aggregates apart. `rows` is the place of the aggregate that counts picked rows: a group without any has no answer.
    """

    inner: tuple[int, ...]
    outer: int
    rows: int


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """Aggregates over the rows of one stream that satisfy both predicates inside the window, per group.

    Emits one row per group that has rows, without keys always one. With `panes` a group has a row for each pane that holds
    rows of it. Late rows are part of the answer from the cycle on that reads them. `outputs` and `having` name keys,
    aggregates, subqueries and the edges of panes as `key_name`, `aggregate_name`, `scalar_name`, WINDOW_START and WINDOW_END. With
    `latch`, the name of a state of its own, rows count for ever, also when retention has taken them; where they begin is in `stream_predicate`.
    """

    table_id: int
    keys: tuple[Expr, ...]
    aggregates: tuple[AggregateCall, ...]
    outputs: tuple[Output, ...]
    window: Window
    static_predicate: Expr | None = None
    stream_predicate: Expr | None = None
    having: Expr | None = None
    panes: Panes | None = None
    own_windows: tuple[
        int | None, ...
    ] = ()  # per aggregate, over how much of the window's end, if not all; () for none
    latch: str | None = None
    reads: str | None = None  # the query through which rows are read, so that they come a cycle later
    sorted: Sorted | None = None  # None: by window and key, all of them
    picking: CorrelatedGroups | None = None  # of a correlated aggregate with keys or panes
    scalars: tuple[Scalar, ...] = ()  # subqueries; their values stand in `outputs`, `having` and `sorted`


@dataclass(frozen=True, slots=True)
class Scalar:
    """A subquery that is one value: aggregates without keys over the same table and at the same NOW as the question around it.

    The value is that of the plan's only output, NULL where it has no row. `inherits`: its window is the question's, also when that
    changes; the plan has it as of now.
    """

    plan: AggregatePlan
    inherits: bool


@dataclass(frozen=True, slots=True)
class JoinAggregatePlan:
    """Aggregates over the results of a window join. All its inputs have the same window; the join runs in its step.

    Emits what an `AggregatePlan` emits. Keys and arguments of `top` name columns as the join's outputs do (alias.column); its
    table and window say nothing. The time of a result, for panes, is the latest of its tuples; a result
    is inside the window if all of them are. A result that comes late is part of the answer from the cycle on that finds it.
    """

    join: JoinPlan
    top: AggregatePlan

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.top.outputs


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
class SparkPlan:
    """Spark SQL text over relations. Re-evaluated as a whole; `reason` says why no kernel covers it.

    `functions` are the user's functions it calls, `inlined` the queries that it contains the text of. `core` is the window
    join below it, if it has one that runs in the cycle: then only what stands on top is evaluated again. `on_demand` is
    what a question that is asked once comes to where a tree over another query's answer can say it without Spark. `top` is
    the same for a standing query: aggregates over the results of the window join that its one relation reads, in that join's names.
    `resampled` is what a question with RESAMPLE comes to where its answer is found in the log, asked once or standing.
    """

    sql: str
    relations: tuple[Relation, ...]
    outputs: tuple[tuple[str, Type], ...]
    reason: str
    append_only: bool = False
    functions: tuple[str, ...] = ()
    inlined: tuple[str, ...] = ()
    core: JoinPlan | None = None
    on_demand: OnDemand | None = None
    top: AggregatePlan | None = None
    resampled: ResamplePlan | None = None


KernelPlan = SelectPlan | JoinPlan | AggregatePlan
Plan = KernelPlan | JoinAggregatePlan | SparkPlan
