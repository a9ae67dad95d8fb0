"""Definitions as people wrote them, and the journal entries that say them: plain frozen records, only with look-ups.

They are built by `sql` (from text) and by `CatalogState` (from journal entries), and read by all other packages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import orjson

from penstock.types import BIGINT, INT, TIMESTAMP, Field, Type

TIME_COLUMN = "ts"


@dataclass(frozen=True, slots=True)
class StreamType:
    """How to reach one kind of sensor, and the fields of its readings. No connector means pushed data."""

    name: str
    fields: tuple[Field, ...]
    connector: str | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamColumn:
    """The dynamic attribute of a sensor table, with everything of its stream type resolved."""

    name: str
    fields: tuple[Field, ...]
    stream_type: str | None = None
    connector: str | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """Readings of one sensor that repeat these fields within the time are dropped and counted.

    `fields` may name static key columns, stream fields and ts.
    """

    fields: tuple[str, ...]
    within_us: int


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What WITH (...) says about a sensor table. language.md, "Time and order".

    `watermark_us` is the watermark at the moment when `lateness_us` was last changed: it never steps back.
    """

    time: Literal["transaction", "valid"] = "transaction"
    out_of_order: Literal["refuse", "clamp", "accept"] = "refuse"
    retention_us: int | None = None
    idle_us: int = 60_000_000
    max_ahead_us: int = 60_000_000
    always_on: bool = False
    discover: bool = False
    deduplicate: Deduplicate | None = None
    lateness_us: int | None = None
    watermark_us: int | None = None


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """A column as queries see it, after the stream's fields were laid beside the static columns.

    `name` is unique in its table: a field with the name of a static column is called "stream.field".
    """

    name: str
    type: Type
    origin: Literal["static", "stream", "time"]
    source: str


@dataclass(frozen=True, slots=True)
class Table:
    """A sensor table (with a stream column) or an ordinary relation (without)."""

    id: int
    name: str
    columns: tuple[Field, ...]
    key: tuple[str, ...]
    stream: StreamColumn | None = None
    options: TableOptions = TableOptions()

    def field_names(self) -> dict[str, str]:
        """The stream's fields as queries and senders call them: one with the name of a static column is "stream.field"."""
        if self.stream is None:
            return {}
        taken = {c.name for c in self.columns} | {TIME_COLUMN}
        return {f.name: f.name if f.name not in taken else f"{self.stream.name}.{f.name}" for f in self.stream.fields}

    def flat_columns(self) -> tuple[FlatColumn, ...]:
        """Static columns, then the stream's fields, then ts."""
        static = tuple(FlatColumn(c.name, c.type, "static", c.name) for c in self.columns)
        if self.stream is None:
            return static
        names = self.field_names()
        fields = tuple(FlatColumn(names[f.name], f.type, "stream", f.name) for f in self.stream.fields)
        return (*static, *fields, FlatColumn(TIME_COLUMN, TIMESTAMP, "time", TIME_COLUMN))


@dataclass(frozen=True, slots=True)
class Function:
    """A user's function. `vectorised` means the body works on Arrow arrays instead of single values.

    With the type of a `state` it is an aggregate: its body has `init`, `add`, `merge` and `finish`.
    """

    name: str
    parameters: tuple[Field, ...]
    returns: Type
    body: str
    language: str = "python"
    vectorised: bool = False
    state: Type | None = None


@dataclass(frozen=True, slots=True)
class QueryDefinition:
    """A standing query: its text, its compiled plan (JSON of sql.plan) and what it reads.

    The plan stays text, and most of it is shared: as dictionaries ten thousand of them took half a gigabyte over all
    processes. The catalog gives a new one its number.

    `start_us` is START: the query's NOW when it was registered; None where no time was known yet. `strategy` says how
    its answer is kept where a statement chose that (STRATEGIES); None: the cheapest is found by cost. `quarantined` says
    why it was taken out of the cycles; such a query is paused, too, until it is resumed. Cycles do not evaluate a `sleeping`
    one, because no client uses it: the run plan says so. `priority` is one of PRIORITIES. `bounded`: a promise that its state does not grow without end, and how many
    bytes it may have at most; 0: as many as it takes; None: there is no promise. `branches` are the numbers of the queries that find its
    rows, one per branch of its plan: they are derived from it (`catalog.branches`) and have its name. Such a query is the `branch_of` another.
    """

    id: int
    name: str
    sql: str
    stored_plan: PlanText
    reads_tables: tuple[str, ...]
    reads_queries: tuple[str, ...] = ()
    reads_functions: tuple[str, ...] = ()
    start_us: int | None = None
    paused: bool = False
    owner: str | None = None
    description: str | None = None
    strategy: str | None = None
    quarantined: str | None = None
    sleeping: bool = False
    priority: str = "normal"
    bounded: int | None = None
    branches: tuple[int, ...] = ()
    branch_of: int | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """Its own number and those of its branches."""
        return (self.id, *self.branches)

    @property
    def plan(self) -> dict[str, object]:
        plan: dict[str, object] = orjson.loads(self.stored_plan.text)
        return plan


@dataclass(frozen=True, slots=True)
class PlanText:
    """A plan as JSON. Its constants stand apart, so that plans that differ in constants alone share the rest."""

    shape: bytes  # with %b in place of each constant
    constants: bytes  # with a comma between two

    @property
    def text(self) -> bytes:
        return self.shape % tuple(self.constants.split(b",") if self.constants else ())


_CONSTANT = re.compile(rb'"literal":(-?\d[\d.eE+-]*),')


def plan_text(plan: dict[str, Any]) -> PlanText:
    parts = _CONSTANT.split(orjson.dumps(plan).replace(b"%", b"%%"))
    return PlanText(_shared(b'"literal":%b,'.join(parts[::2])), b",".join(parts[1::2]))


@lru_cache(maxsize=2048)
def _shared(shape: bytes) -> bytes:
    """One for all that are equal."""
    return shape


@dataclass(frozen=True, slots=True)
class Sink:
    """A way out: what a query's results are sent to. Options are as they were written, secrets among them."""

    id: int
    name: str
    query: str
    kind: str
    options: dict[str, str] = field(default_factory=dict)
    paused: bool = False
    owner: str | None = None


STRATEGIES = ("complete", "partial", "none")
PRIORITIES = ("high", "normal", "low")
"""Classes of queries, the most important first."""


# Hidden columns of the log and of static rows; no user column may start with an underscore.
VERSION_COLUMN = Field("_vid", INT)  # in every logged row: which version of its sensor's static row it joins
ARRIVAL_COLUMN = Field("_at", TIMESTAMP)  # wall clock at append; only in valid-time tables
SENSOR_COLUMN = Field("_sid", INT)  # which sensor a static version belongs to
POSITION_COLUMN = Field("_pos", BIGINT)  # a row's log position


@dataclass(frozen=True, slots=True)
class Entry:
    """One definition: its place in the total order, the log heads at that moment, and what it says."""

    pos: int
    kind: str
    heads: dict[int, int]
    at_us: int
    body: dict[str, Any]
