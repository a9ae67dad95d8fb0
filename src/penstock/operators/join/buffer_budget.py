"""Estimate the memory of a join's buffers from the rows inside its windows now, and refuse joins over a limit.

Up to the memory for joins its buffers stay in memory; beyond, each cycle reads part of them from the log again, which is
slower but exact; far beyond, no cycle would come to an end.
"""

from __future__ import annotations

from pathlib import Path

from penstock.errors import error
from penstock.settings import Settings
from penstock.sql.plan import JoinPlan
from penstock.streams.log.segments import list_readable, rows_within

BYTES_PER_ROW = 40
REFUSED_BEYOND = 16


def check_join_fits(plan: JoinPlan, log: Path, settings: Settings) -> None:
    """Raise over_budget where a join's windows hold far more rows than the memory for joins."""
    rows = sum(rows_within(list_readable(log, i.table_id), _reach(plan, place)) for place, i in enumerate(plan.inputs))
    needed, limit = rows * BYTES_PER_ROW, REFUSED_BEYOND * max(1, settings.join_memory_mb) << 20
    if needed > limit:
        raise error(
            "over_budget",
            detail=f"its windows hold about {rows:,} rows, {needed >> 20:,} MB in buffers; the limit is {limit >> 20:,} MB",
            hint="narrow the windows between the streams, or raise join_memory_mb",
        )


def _reach(plan: JoinPlan, place: int) -> int:
    bounds = [row[place] for row in plan.bounds] + list(plan.bounds[place])
    return max(b for b in bounds if b is not None)
