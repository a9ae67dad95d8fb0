"""The plan of a standing query as boxes and arrows: what reads what, from the streams down to the answer.

Rows per second along the arrows (`Flows`) are counted from the log on request and not while cycles run: a request evaluates the
conditions of the plan's streams over the readings since the last request. Of very many readings only the newest are counted
and scaled up, so a busy table costs as much as a quiet one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from penstock.catalog.model import QueryDefinition, Table
from penstock.catalog.state import CatalogState
from penstock.database.database import Database
from penstock.expr.evaluate import evaluate_mask, evaluate_static_of
from penstock.expr.expression import Expr, UserCall, columns_of, walk
from penstock.operators.base.view import view_of
from penstock.sql.explain.notation import show, show_window
from penstock.sql.plan import (
    AggregatePlan,
    JoinInput,
    JoinPlan,
    Plan,
    SelectPlan,
    SparkPlan,
    plan_from_json,
)

Kind = Literal["source", "step", "answer"]


@dataclass(frozen=True, slots=True)
class Passing:
    """The readings of a table that satisfy two conditions, or one, or none."""

    table_id: int
    static: Expr | None
    stream: Expr | None


@dataclass(frozen=True, slots=True)
class Box:
    """A step of a plan. `lines` say what it does; `table` or `query` is what a source reads, `passes` what leaves a step."""

    title: str
    lines: tuple[str, ...] = ()
    kind: Kind = "step"
    table: str | None = None
    query: str | None = None
    passes: Passing | None = None
    rows: int | None = None  # of a table that is no stream


@dataclass(frozen=True, slots=True)
class PlanGraph:
    """A plan as boxes and arrows. Arrows are pairs of places in `boxes`; boxes are in the order in which rows pass them."""

    boxes: tuple[Box, ...]
    arrows: tuple[tuple[int, int], ...]


def plan_graph(definition: QueryDefinition, state: CatalogState) -> PlanGraph:
    """From the sources to the answer, which is the last box."""
    drawing = _Drawing(state)
    last = drawing.draw(plan_from_json(definition.plan))
    drawing.add(Box(definition.name, ("the answer",), "answer"), last)
    return PlanGraph(tuple(drawing.boxes), tuple(drawing.arrows))


class _Drawing:
    """Draws the boxes and arrows of a plan. Each method adds some, and returns the place of the last one."""

    def __init__(self, state: CatalogState) -> None:
        self._state = state
        self.boxes: list[Box] = []
        self.arrows: list[tuple[int, int]] = []

    def add(self, box: Box, *after: int) -> int:
        self.boxes.append(box)
        place = len(self.boxes) - 1
        self.arrows += [(source, place) for source in after]
        return place

    def draw(self, plan: Plan) -> int:
        if plan.selection is not None:
            window = Box("window", (show_window(plan.selection.window), "shared pass"))
            return self.add(window, self._stream(plan.selection))
        if plan.aggregation is not None:
            return self._with_scalars(plan.aggregation, self._aggregate(plan.aggregation))
        sources = [] if plan.window_join is None else [self._join(plan.window_join)]
        if plan.over_results is not None:
            return self._with_scalars(plan.over_results, self.add(_slices(plan.over_results), *sources))
        if plan.spark is not None:
            return self._of_text(plan.spark, sources)
        if plan.branches:
            below = [self.draw(branch) for branch in plan.branches]
            return self._own(plan, *below)
        if plan.kernel is not None and plan.kernel is not plan.pure_join:
            return self._own(plan, self.draw(plan.kernel))
        return sources[0]

    def _stream(self, use: SelectPlan | AggregatePlan | JoinInput, alias: str = "") -> int:
        """A stream and what its sensors and its readings have to satisfy."""
        name, static = self._name(use.table_id), use.static_predicate
        title = f"{name} {alias}" if alias and alias != name else name
        sensors = ("every sensor",) if static is None else (f"sensors: {show(static)}",)
        place = self.add(Box(title, sensors, "source", table=name, passes=Passing(use.table_id, static, None)))
        if use.stream_predicate is None:
            return place
        passes = Passing(use.table_id, static, use.stream_predicate)
        return self.add(Box("filter", _parts(use.stream_predicate), passes=passes), place)

    def _name(self, table_id: int) -> str:
        table = self._state.tables_by_id.get(table_id)
        return table.name if table is not None else "dropped"

    def _aggregate(self, plan: AggregatePlan) -> int:
        return self.add(Box("window", (show_window(plan.window),)), self.add(_slices(plan), self._stream(plan)))

    def _with_scalars(self, plan: AggregatePlan, place: int) -> int:
        """Add the scalar subqueries, which are combined with the groups when the query is answered."""
        if not plan.scalars:
            return place
        values = [self._aggregate(scalar.plan) for scalar in plan.scalars]
        return self.add(Box("values of subqueries", ("in HAVING and the SELECT list",)), place, *values)

    def _join(self, plan: JoinPlan) -> int:
        inputs = [self._stream(each, each.alias) for each in plan.inputs]
        for table in plan.tables:
            rows = self._rows(self._state.tables_by_id.get(table.table_id))
            inputs.append(self.add(Box(self._name(table.table_id), ("table",), "source", rows=rows)))
        return self.add(Box("window", (show_window(plan.inputs[0].window),)), self.add(_joined(plan), *inputs))

    def _of_text(self, plan: SparkPlan, sources: list[int]) -> int:
        for relation in plan.relations:
            if relation.kind == "core":
                continue
            window = (show_window(relation.window),) if relation.window is not None else ()
            table = relation.table if relation.kind == "stream" else None
            query = relation.table if relation.kind == "query" else None
            known = self._state.tables.get(relation.table) if relation.kind in ("ordinary", "static") else None
            lines = (relation.kind, *window)
            box = Box(relation.table, lines, "source", table=table, query=query, rows=self._rows(known))
            sources.append(self.add(box))
        return self._own(plan, *sources)

    def _own(self, plan: Plan, *after: int) -> int:
        """The step of the plan's operator."""
        title, lines = view_of(plan.operator).box(plan)
        return self.add(Box(title, lines), *after)

    def _rows(self, table: Table | None) -> int | None:
        return self._state.rows(table.id).current().num_rows if table is not None else None


def _parts(predicate: Expr) -> tuple[str, ...]:
    """A conjunction, a condition a line."""
    operation = getattr(predicate, "operation", None)
    arguments = getattr(predicate, "arguments", ())
    return tuple(show(a) for a in arguments) if operation == "and" else (show(predicate),)


def _slices(plan: AggregatePlan) -> Box:
    keys = "per " + ", ".join(show(k) for k in plan.keys) if plan.keys else "one group"
    calls = (f"{c.function}({', '.join(show(a) for a in c.arguments) or '*'})" for c in plan.aggregates)
    return Box("slices", (keys, *calls))


def _joined(plan: JoinPlan) -> Box:
    if len(plan.inputs) == 1:
        return Box("join with tables", ("as they are when a reading is logged",))
    words = {"inner": "window join", "left": "window join, or NULL", "anti": "without a partner"}
    conditions = tuple(show(c) for c in plan.conditions)
    return Box(words[plan.missing], conditions or ("within each other's windows",))


ROWS_A_LOOK = 20_000
EVERY_S = 2.0


class Flows:
    """Counts rows of the streams of one plan between requests."""

    def __init__(self, database: Database, now_s: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._now_s = now_s
        self._seen: dict[int, tuple[float, int]] = {}  # by table: when, and how far the log had come
        self._rates: dict[Passing, float] = {}

    def look(self, graph: PlanGraph) -> dict[Passing, float]:
        """Rows per second that pass each step since the last request; unknown ones are left out."""
        now_s = self._now_s()
        steps = {box.passes for box in graph.boxes if box.passes is not None}
        for table_id in {step.table_id for step in steps}:
            head = self._database.log.head(table_id)
            before_s, before = self._seen.get(table_id, (now_s, head))
            if table_id not in self._seen or now_s - before_s >= EVERY_S:
                self._seen[table_id] = (now_s, head)
                if now_s > before_s:
                    self._count([step for step in steps if step.table_id == table_id], before, head, now_s - before_s)
        return {step: rate for step, rate in self._rates.items() if step in steps}

    def _count(self, steps: list[Passing], before: int, head: int, seconds: float) -> None:
        table = self._database.catalog.state.tables_by_id.get(steps[0].table_id)
        steps = [step for step in steps if not _calls_users(step)]
        if table is None or not steps:
            return
        state, standing = self._database.catalog.state, self._database.standing
        budget = standing.new_budget(jobs=False)
        first = max(before, head - min(ROWS_A_LOOK, budget.most))
        wanted = {name for step in steps if step.stream is not None for name in columns_of(step.stream)}
        with standing.locked():
            log_reader = standing.log_access(budget).fresh(table, state.rows(table.id))
        passed, rows = dict.fromkeys(steps, 0), 0
        for _, vids, columns in log_reader.runs(first, head, wanted) if first < head else ():
            rows += len(vids)
            for step in steps:
                keep = evaluate_mask(step.stream, columns, len(vids))
                if step.static is not None:
                    keep = keep & evaluate_static_of(step.static, log_reader.static.versions(), vids)
                passed[step] += int(np.count_nonzero(keep))
        per_s = (head - before) / seconds
        self._rates |= {step: per_s * passed[step] / rows if rows else 0.0 for step in steps}


def _calls_users(step: Passing) -> bool:
    """Users' functions run in workers, never here."""
    predicates = (predicate for predicate in (step.static, step.stream) if predicate is not None)
    return any(isinstance(part, UserCall) for predicate in predicates for part in walk(predicate))
