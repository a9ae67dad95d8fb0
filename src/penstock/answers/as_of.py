"""A standing query's answer as of a past time: its window with that time for NOW, over the log as it is known today.

So a reading that came late is in the answer of its own time, and a query answers for times before its registration.
Nothing is kept for this: selections, RESAMPLE and mining functions are evaluated here from the rows that their windows reach,
anything else as Spark SQL.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import QueryDefinition
from penstock.catalog.system_columns import SYSTEM_TABLES
from penstock.clock import format_timestamp
from penstock.errors import PenstockError, error, expect
from penstock.expr.evaluate import evaluate_mask, evaluate_static
from penstock.expr.expression import columns_of
from penstock.expr.windows import FOREVER, RowsWindow, TimeWindow, Window
from penstock.operators.aggregate.rollups.once import answer_at
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.log_reader import TimedPositions
from penstock.operators.registry import operators_with, part_of
from penstock.operators.select.window_cut import newest
from penstock.operators.sparksql.evaluator import Evaluator
from penstock.operators.sparksql.moments import check_taken_in, now_of_plan, streams_of
from penstock.operators.sparksql.replan import with_text
from penstock.pipeline.spark_sql import Moment
from penstock.sql.parse import parse_select
from penstock.sql.plan import AggregatePlan, Plan, SelectPlan, SparkPlan, all_windows, plan_from_json, stream_uses
from penstock.sql.planning.planner import plan_query
from penstock.sql.statements import AsOf
from penstock.types import format_duration
from penstock.views.answer_store import AnswerStore
from penstock.views.results import Result
from penstock.views.standing_queries import StandingQueries


def answer_as_of(
    standing: StandingQueries,
    evaluator: Evaluator,
    catalog: Catalog,
    definition: QueryDefinition,
    as_of: AsOf,
    limit: int | None,
) -> Result:
    """The answer at a time; `as_of` is no cycle."""
    plan, start_us = plan_from_json(definition.plan), definition.start_us
    if plan.latch is not None:
        hint = "AS OF CYCLE n, as long as the cycle is kept"
        raise error("not_supported", feature="AS OF a time on a query with LATCH", hint=hint)
    if plan.aggregation is not None and plan.aggregation.is_answer_only:
        return _from_log(standing, plan.aggregation, definition, as_of, limit)
    selections = _selections_of(plan)
    text = _as_spark_sql(catalog, definition, plan) if not selections else None
    asked: Plan = text or plan
    budget = standing.new_budget()
    with standing.locked() as store:
        if definition.id not in store.state.queries_by_id:
            raise error("query_not_found", query=definition.name, hint="it was dropped")
        check_taken_in(asked, store.state)
        at_us = _moment(asked, store, as_of)
        _check_kept(asked, store, start_us, at_us)
        cycle, most = store.cycle, standing.settings.result_max_rows
        log = standing.log_access(budget)
        past = [_PastRows(log, each, store, start_us, at_us) for each in selections]
        moment = _past_moment(text, store, start_us, at_us) if text is not None else None
        once = part_of(text.operator, "once") if text is not None and text.operator in operators_with("once") else None
        held = None
        if once is not None and moment is not None:
            held = once.hold_once(standing, text, at_us, moment.ranges, most if limit is None else None, budget)
    table = pa.concat_tables([each.rows(limit, most) for each in past]) if past else None
    if once is not None and held is not None:
        table = once.answer_once(held)  # None where Spark SQL has to give it
    if table is None:
        assert text is not None and moment is not None
        table = evaluator.run_at(text, moment, cycle, {}).table
    rows = table if limit is None else table.slice(0, limit)
    return Result(rows, cycle=cycle, now_us=at_us, notices=budget.notices())


def _selections_of(plan: Plan) -> list[SelectPlan]:
    """The selections that a plan is made of, if they can be evaluated here.

    User functions run in workers only, and what lasts is not known as of older times.
    """
    found = [each.selection for each in plan.branches or (plan,)]
    plain = [each for each in found if each is not None and not each.functions and each.lasting is None]
    return plain if len(plain) == len(found) else []


def _from_log(
    standing: StandingQueries, plan: AggregatePlan, definition: QueryDefinition, as_of: AsOf, limit: int | None
) -> Result:
    """Aggregates that Spark SQL has no words for."""
    if plan.scalars or not isinstance(plan.window, TimeWindow):
        feature = "AS OF a time on mining functions beside a subquery, or over the newest rows,"
        raise error("not_supported", feature=feature, hint="AS OF CYCLE n, as long as the cycle is kept")
    with standing.locked() as store:
        if definition.id not in store.state.queries_by_id:
            raise error("query_not_found", query=definition.name, hint="it was dropped")
        check_taken_in(plan, store.state)
        at_us = _moment(plan, store, as_of)
        _check_kept(plan, store, definition.start_us, at_us)
    found = answer_at(standing, plan, _range(plan.window, at_us, definition.start_us))
    return found if limit is None else replace(found, table=found.table.slice(0, limit))


def _as_spark_sql(catalog: Catalog, definition: QueryDefinition, plan: Plan) -> SparkPlan:
    """What a join keeps is not as of older times: the whole question is evaluated."""
    if plan.kernel is not None or plan.branches:
        select = parse_select(definition.sql)
        plan = plan_query(select, catalog.state.frozen(), True, SYSTEM_TABLES, shared=False, spent=True)
    text = with_text(expect(SparkPlan, plan), definition, catalog.state.frozen())
    system = next((r.table for r in text.relations if r.kind in ("system", "state")), None)
    if system is not None:
        raise error("not_supported", feature=f'AS OF on "{system}", which has no past')
    states = catalog.state.queries
    read = {r.table for r in text.relations if r.kind == "query" and r.table in states}
    joins = sorted(name for name in read if plan_from_json(states[name].plan).pure_join is not None)
    if joins:
        raise error("not_supported", feature=f'AS OF on a query that reads the window join "{joins[0]}"')
    return text


def _moment(plan: Plan, store: AnswerStore, as_of: AsOf) -> int:
    now_us = now_of_plan(plan, store)
    if now_us is None:
        raise error("invalid_window", detail="nothing has been observed yet, so there is no past to ask for")
    at_us = as_of.time_us if as_of.time_us is not None else now_us + (as_of.offset_us or 0)
    if at_us > now_us:
        detail = f"{format_timestamp(at_us)} has not come yet: NOW is {format_timestamp(now_us)}"
        hint = "without AS OF the answer is the one of now"
        raise error("invalid_window", detail=detail, hint=hint)
    return at_us


def _check_kept(plan: Plan, store: AnswerStore, start_us: int | None, at_us: int) -> None:
    """Refuse a time if its window reaches readings that retention may have deleted."""
    kept_us = -FOREVER
    for table_id, _ in streams_of(plan, store.state):
        table = store.state.tables_by_id[table_id]
        newest_us = store.now_of(table, None)
        if table.options.retention_us is not None and store.state.retention(table_id) and newest_us is not None:
            kept_us = max(kept_us, newest_us - table.options.retention_us)
    # A window that does not slide begins where it begins: what retention took of it is missing at any time.
    reach_us = max(
        (at_us - _range(w, at_us, start_us)[0] for w in all_windows(plan) if isinstance(w, TimeWindow) and w.slides),
        default=0,
    )
    if at_us - reach_us < kept_us:
        raise history_gone(at_us, kept_us + reach_us, reach_us)


def history_gone(at_us: int, oldest_us: int | None, reach_us: int) -> PenstockError:
    oldest = format_timestamp(oldest_us) if oldest_us is not None else "still to come"
    hint = "readings before that are no longer kept"
    if reach_us:
        hint = f"its window reaches back {format_duration(reach_us)}, and readings before that are no longer kept"
    return error("history_gone", time=format_timestamp(at_us), oldest=oldest, hint=hint)


def _range(window: Window | None, at_us: int, start_us: int | None) -> tuple[int, int]:
    """A window's times as of a moment; nothing after the moment had happened then."""
    if not isinstance(window, TimeWindow):
        return -FOREVER, at_us
    low, high = window.resolve(at_us, start_us if start_us is not None else -FOREVER)
    return low, min(high, at_us)


def _past_moment(plan: SparkPlan, store: AnswerStore, start_us: int | None, at_us: int) -> Moment:
    assert store.offset is not None
    ranges = {r.name: _range(r.window, at_us, start_us) for r in plan.relations if r.kind in ("stream", "query")}
    return Moment(store.offset, store.state.frozen(), at_us, ranges, store.start)


class _PastRows:
    """The rows of a selection inside its window at a past moment. Made under the store's lock, read without it."""

    def __init__(self, log: LogAccess, plan: SelectPlan, store: AnswerStore, start_us: int | None, at_us: int) -> None:
        assert store.offset is not None
        (use,) = stream_uses(plan)
        self._plan = plan
        self._static = store.state.rows(use.table_id)
        self._floor = store.state.retention(use.table_id)
        self._head = store.offset.data.get(use.table_id, 0)
        self._range = _range(plan.window, at_us, start_us)
        self._log_reader = log.reader(store.state.tables_by_id[use.table_id], self._static, self._head)

    def rows(self, limit: int | None, most: int) -> pa.Table:
        found = self._matching(self._counted())
        if limit is None and len(found.positions) > most:
            detail = f"the answer has {len(found.positions)} rows, more than {most}"
            hint = "ask for fewer with a limit or a narrower window, or raise result_max_rows"
            raise error("over_budget", detail=detail, hint=hint)
        return self._log_reader.rows(self._plan, found.positions[:limit], [])

    def _counted(self) -> TimedPositions:
        """Rows inside the window that pass the plan's predicate on static columns."""
        window, (low, high) = self._plan.window, self._range
        rows = self._passing(low, high)
        if isinstance(window, RowsWindow):
            rows = rows.take(newest(rows, window, self._static))
            if self._floor and not window.per_sensor and len(rows.positions) < window.count:
                # Some of the missing rows existed, and retention deleted them.
                kept = np.sort(self._passing(-FOREVER, FOREVER).times)[window.count - 1 :]
                raise history_gone(high, int(kept[0]) if len(kept) else None, 0)
        return rows

    def _passing(self, low: int, high: int) -> TimedPositions:
        rows = self._log_reader.times(None, self._head, low, high, self._floor)
        if self._plan.static_predicate is None:
            return rows
        passing = evaluate_static(self._plan.static_predicate, self._static.versions())
        return rows.take(np.flatnonzero(passing[rows.vids]))

    def _matching(self, rows: TimedPositions) -> TimedPositions:
        predicate = self._plan.stream_predicate
        if predicate is None or not len(rows.positions):
            return rows
        columns = self._log_reader.columns(columns_of(predicate), rows.positions)
        return rows.take(np.flatnonzero(evaluate_mask(predicate, columns, len(rows.positions))))
