"""RESAMPLE as plain data: what is asked of two streams, one of which gives the times."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.expr.expression import Expr
from penstock.operators.resample.nearest import Method
from penstock.sql.plan.output import Output, Sorted
from penstock.types import Type


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
