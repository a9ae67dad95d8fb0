"""The plan of aggregates over windows of one stream: plain data, as `plan` has it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.operators.expr import Expr
from penstock.operators.slices.combining import Panes
from penstock.operators.windows import Window
from penstock.sql.output import Output
from penstock.types import Type

WINDOW_START = "window_start"
WINDOW_END = "window_end"


def key_name(place: int) -> str:
    return f"key.{place}"


def aggregate_name(place: int) -> str:
    return f"aggregate.{place}"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One call of an aggregate; without arguments it counts rows."""

    function: str
    arguments: tuple[Expr, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """Aggregates over the rows of one stream that satisfy both predicates inside the window, per group.

    Emits one row per group that has rows, without keys always one. With `panes` a group has a row for each pane that holds
    rows of it. Late rows are part of the answer from the cycle on that reads them. `outputs` and `having` name keys,
    aggregates and the edges of panes as `key_name`, `aggregate_name`, WINDOW_START and WINDOW_END.
    """

    table_id: int
    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[Output, ...]
    window: Window
    static_predicate: Expr | None = None
    stream_predicate: Expr | None = None
    having: Expr | None = None
    panes: Panes | None = None
