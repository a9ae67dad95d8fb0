"""A standing query's answer as of a past time: its window with that time for NOW, over the log as it is known today.

So a reading that came late is in the answer of its own time, and a query answers for times before its registration.
Nothing is kept for this: its operator finds the answer in the rows that its windows reach, or Spark SQL does.
"""

from __future__ import annotations

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import QueryDefinition
from penstock.clock import format_timestamp
from penstock.errors import error
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.base.once import NotAnswered, PastQuestion, history_gone, once_of, span_at
from penstock.operators.sparksql.evaluator import Evaluator
from penstock.operators.sparksql.moments import check_taken_in, now_of_plan, streams_of
from penstock.operators.sparksql.once import past_moment, past_text
from penstock.sql.plan import Plan, all_windows, plan_from_json
from penstock.sql.statements import AsOf
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
    once, budget, most = once_of(plan), standing.new_budget(), standing.settings.result_max_rows
    text = None if once.covers_past(plan) else past_text(catalog, definition, plan)
    asked: Plan = text or plan
    with standing.locked() as store:
        if definition.id not in store.state.queries_by_id:
            raise error("query_not_found", query=definition.name, hint="it was dropped")
        check_taken_in(asked, store.state)
        at_us = _moment(asked, store, as_of)
        _check_kept(asked, store, start_us, at_us)
        question = PastQuestion(plan, start_us, at_us, standing.log_access(budget), most if limit is None else None)
        held = once.hold_past(standing, question) if text is None else None
        cycle, moment = store.cycle, past_moment(asked, store, start_us, at_us)
    try:
        table = held.select(limit, most) if held is not None else None
    except NotAnswered:
        table = None
    if table is None:
        text = text or past_text(catalog, definition, plan)
        table = evaluator.run_at(text, moment, cycle, {}).table
    note = held.note if held is not None else None
    notices = (*(note.notices if note is not None else ()), *budget.notices())
    rows = table if limit is None else table.slice(0, limit)
    return Result(rows, cycle=cycle, now_us=at_us, notices=notices, rolled_up=note)


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
        (at_us - span_at(w, at_us, start_us)[0] for w in all_windows(plan) if isinstance(w, TimeWindow) and w.slides),
        default=0,
    )
    if at_us - reach_us < kept_us:
        raise history_gone(at_us, kept_us + reach_us, reach_us)
