"""The durability of a query's matches: in the commit record or in a bit matrix, chosen per definition."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

import orjson

from penstock.catalog.model import PlanText, QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.expr.windows import TimeWindow
from penstock.sql.plan import KernelPlan, SelectPlan, plan_from_json


class Durability(IntEnum):
    """What a task may do with a query's matches."""

    RECORD = 0  # only workers can find them again, or a count of rows needs all of them: a bitmap in the record
    LISTED = 1  # the window grows without end: in the record, among other lists where they are few
    SOFT = 2  # the window passes: many matches go to a bit matrix, and are evaluated again if that is lost


def keeping_of(plan: SelectPlan) -> Durability:
    if not is_pure(plan):
        return Durability.RECORD
    assert isinstance(plan.window, TimeWindow)
    return Durability.SOFT if plan.window.slides else Durability.LISTED


def is_pure(plan: KernelPlan) -> bool:
    """Whether the server itself can find the matches: without user code, and with a window over time."""
    return isinstance(plan.windows, TimeWindow) and not plan.calls_user_code


def may_wait(state: CatalogState, definition: QueryDefinition) -> bool:
    """Whether a query may stand behind the cycles: by its class, and as a selection with matches that do not depend on one another."""
    if definition.id not in state.deferrable() or definition.branch_of is not None:
        return False
    return _waits(definition.stored_plan)


@lru_cache(maxsize=4096)
def _waits(stored: PlanText) -> bool:
    plan = plan_from_json(orjson.loads(stored.text))
    found = plan.selection if plan.operator == "select" else None
    return found is not None and found.lasting is None and isinstance(found.window, TimeWindow)


def meets_rows(definition: QueryDefinition, plan: KernelPlan) -> bool:
    """Whether cycles evaluate a query over new rows; if not, it is evaluated on request."""
    if definition.quarantined is not None:
        return False
    if plan.latch is not None:
        return True  # rows that it missed would be gone some day: paused, it answers nothing but goes on
    return not definition.paused and not ((definition.strategy == "none" or definition.sleeping) and is_pure(plan))
