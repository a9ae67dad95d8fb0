"""Answers without Spark SQL to what nothing is kept for: a question that is asked once, or a standing query as of a past time.

An operator that can give some has `ONCE` in its `once.py`. Where it has none, or declines, Spark SQL answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from penstock.clock import format_timestamp
from penstock.errors import PenstockError, error
from penstock.expr.windows import FOREVER, TimeWindow, Window
from penstock.operators.aggregate.rollups.notices import RolledUpNote
from penstock.operators.base.log_access import LogAccess
from penstock.operators.registry import asked_without_spark, part_of
from penstock.sql.plan import Plan, SparkPlan
from penstock.types import format_duration

if TYPE_CHECKING:
    from penstock.operators.sparksql.evaluation_rows import Evaluation
    from penstock.views.standing_queries import StandingQueries


class NotAnswered(Exception):
    """Raised where an operator cannot answer after all, with the reason; Spark SQL answers."""


class TreeAnswers(Protocol):
    """Answers from trees that are kept over the answers of standing queries."""

    def answer(self, plan: SparkPlan) -> Evaluation: ...


class OnceOwner(Protocol):
    """What answers questions that are asked once."""

    standing: StandingQueries

    @property
    def on_demand(self) -> TreeAnswers: ...


class PastAnswer(Protocol):
    """An answer as of a past time. It is made under the store's lock, and read without it."""

    @property
    def note(self) -> RolledUpNote | None:
        """What a rollup had to do with it, once its rows were read."""

    def select(self, limit: int | None, most: int) -> pa.Table:
        """Its first rows; over_budget where all of them are asked for and they are more than `most`. May raise NotAnswered."""


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """A standing query's plan with a past time for NOW, over the log as it is known today.

    `most`: rows that the answer may have where all of them are asked for.
    """

    plan: Plan
    start_us: int | None
    at_us: int
    log: LogAccess
    most: int | None


class Once:
    """An operator's answers without Spark SQL. These are those of one that has none."""

    plans_are_kept = False  # planning a question takes longer than its answer

    def answer(self, owner: OnceOwner, plan: SparkPlan) -> Evaluation | None:
        """The answer at the last committed cycle to a question that is asked once. None, or NotAnswered: Spark SQL gives it."""
        return None

    def covers_past(self, plan: Plan) -> bool:
        """Whether it answers as of past times. Raises not_supported where Spark SQL cannot either."""
        return False

    def hold_past(self, standing: StandingQueries, asked: PastQuestion) -> PastAnswer:
        """The answer as of a past time that it covers. Called under the lock."""
        raise NotImplementedError


_SPARKS = Once()


def once_of(plan: Plan) -> Once:
    """What answers a plan's operator has without Spark SQL."""
    if plan.operator not in asked_without_spark():
        return _SPARKS
    found: Once = part_of(plan.operator, "once").ONCE
    return found


def span_at(window: Window | None, at_us: int, start_us: int | None) -> tuple[int, int]:
    """A window's times as of a moment; nothing after the moment had happened then."""
    if not isinstance(window, TimeWindow):
        return -FOREVER, at_us
    low, high = window.resolve(at_us, start_us if start_us is not None else -FOREVER)
    return low, min(high, at_us)


def history_gone(at_us: int, oldest_us: int | None, reach_us: int) -> PenstockError:
    oldest = format_timestamp(oldest_us) if oldest_us is not None else "still to come"
    hint = "readings before that are no longer kept"
    if reach_us:
        hint = f"its window reaches back {format_duration(reach_us)}, and readings before that are no longer kept"
    return error("history_gone", time=format_timestamp(at_us), oldest=oldest, hint=hint)
