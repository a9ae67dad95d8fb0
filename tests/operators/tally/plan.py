"""The plan of the tally: a table, and the time since when its readings count. Plain data, stored as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.errors import expect
from penstock.expr import windows
from penstock.expr.windows import TimeWindow
from penstock.sql.plan import Plan, StreamUse
from penstock.sql.plan.nodes import KernelPlan
from penstock.types import BIGINT, Type


@dataclass(frozen=True, slots=True)
class TallyPlan(KernelPlan):
    """How many readings a table has had since the beginning of a window that never moves."""

    operator: ClassVar[str] = "tally"
    table_id: int
    name: str
    window: TimeWindow

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        return ((self.name, BIGINT),)

    @property
    def uses(self) -> tuple[StreamUse, ...]:
        return (StreamUse(self.table_id, None, self.window),)


def to_json(plan: Plan) -> dict[str, Any]:
    tally = expect(TallyPlan, plan)
    return {"table": tally.table_id, "name": tally.name, "window": windows.to_json(tally.window)}


def from_json(data: dict[str, Any]) -> TallyPlan:
    return TallyPlan(data["table"], data["name"], expect(TimeWindow, windows.from_json(data["window"])))
