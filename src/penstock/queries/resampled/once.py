"""A SELECT with RESAMPLE that is asked once, or about a past time: from the logs, without Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import error
from penstock.queries.moments import moment_of
from penstock.queries.resampled.finding import too_many
from penstock.queries.resampled.held import ResampleHeld
from penstock.queries.resampled.holding import hold_with
from penstock.queries.spark_queries import Evaluated
from penstock.sql.plan import SparkPlan

if TYPE_CHECKING:
    from penstock.queries.standing import StandingQueries


def resampled_once(standing: StandingQueries, plan: SparkPlan) -> Evaluated | None:
    """The answer at the last committed cycle; None where Spark has to give it: nobody asked for a RESAMPLE, or too much is read."""
    if plan.resampled is None:
        return None
    began = time.monotonic()
    with standing.locked() as store:
        moment = moment_of(plan, store, None)
        held = _hold(standing, plan, moment.now_us, moment.ranges)
    return _evaluated(standing, held, moment.now_us, began)


def resampled_at(
    standing: StandingQueries, plan: SparkPlan, at_us: int, spans: Mapping[str, tuple[int, int]]
) -> Evaluated | None:
    """The same as of a past time; `spans` are what windows are then, by relation."""
    if plan.resampled is None:
        return None
    began = time.monotonic()
    with standing.locked():
        held = _hold(standing, plan, at_us, spans)
    return _evaluated(standing, held, at_us, began)


def _hold(
    standing: StandingQueries, plan: SparkPlan, now_us: int, spans: Mapping[str, tuple[int, int]]
) -> ResampleHeld:
    store = standing.store
    assert store.offset is not None
    log, listings = standing.folder.log, standing.listings
    return hold_with(store, 0, store.cycle, (store.start, store.offset), plan, now_us, spans, log, listings)


def _evaluated(standing: StandingQueries, held: ResampleHeld, now_us: int, began: float) -> Evaluated | None:
    if too_many(held.times, held.values) is not None:
        return None
    rows, most = held.answer(), standing.settings.result_max_rows
    if rows.num_rows > most:
        raise error(
            "over_budget",
            detail=f"the answer has more than {most} rows",
            hint="add LIMIT or a narrower window, or raise result_max_rows",
        )
    return Evaluated(rows, held.cycle, now_us, time.monotonic() - began)
