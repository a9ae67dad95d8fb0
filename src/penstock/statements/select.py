"""SELECT: evaluates it once, or reads the answer of a standing query by name. Invoke and subscribe are here, too."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from penstock.answers.as_of import answer_as_of
from penstock.answers.subscription import Subscription
from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.catalog.system_columns import SYSTEM_TABLES
from penstock.errors import PenstockError, error
from penstock.operators.aggregate.rollups.once import answer_from_log
from penstock.operators.aggregate.rollups.once import answer_once as answer_from_rollup
from penstock.operators.aggregate.rollups.rollup_read import find_match
from penstock.operators.base.finality import check_has_final_rows
from penstock.operators.base.once import NotAnswered, once_of
from penstock.operators.base.view import classify
from penstock.operators.sparksql.evaluation_rows import Evaluation
from penstock.security.caller import LOCAL, current_caller
from penstock.sql import statements as st
from penstock.sql.parse import parse_as_of
from penstock.sql.plan import AggregatePlan, Plan, SparkPlan
from penstock.sql.planning.planner import asked_of_slices, asked_once, invocation_of, plan_query
from penstock.sql.statements import AsOf
from penstock.statements.session import Session
from penstock.views.results import Result

PastMoment = int | str | AsOf | None


def invoke(
    session: Session, name: str, as_of: PastMoment, limit: int | None = None, offset: int = 0, final: bool = False
) -> Result:
    """The answer of a standing query for its window as of the last cycle, an older one, or a past time; or a page of it.

    `final`: its final rows alone.
    """
    statements = session.statements
    try:
        with statements.enter(f"SELECT * FROM {name}", current_caller() or LOCAL), statements.turn("light"):
            most = None if limit is None else min(offset + limit, sys.maxsize)
            whole = _invoke(session, name, as_of, most, final)
            return replace(whole, table=whole.table.slice(min(offset, whole.table.num_rows))) if offset else whole
    except PenstockError as failure:
        session.damage.note_failure(failure)
        raise


def _invoke(session: Session, name: str, as_of: PastMoment, limit: int | None, final: bool) -> Result:
    began = time.thread_time()
    definition = session.definition(name)
    session.wait_for_query(definition)
    if isinstance(as_of, str):
        as_of = parse_as_of(as_of)
    cycle = as_of.cycle if isinstance(as_of, AsOf) else as_of
    if final:
        check_final(session, definition, as_of)
    if isinstance(as_of, AsOf) and cycle is None:
        with session.statements.turn("heavy"):
            result = answer_as_of(session.standing, session.evaluator, session.catalog, definition, as_of, limit)
    else:
        result = session.standing.invoke(name, cycle, limit, final)
    session.usage.note(definition.id, session.clock.now_us())
    plan = session.standing.plan_of(definition)
    said = session.completeness.say(result, plan, definition.start_us, session.catalog.state)
    session.costs.note_asked(definition.id, time.thread_time() - began)
    return said


def subscribe(session: Session, name: str, from_cycle: int | None, changes: bool, final: bool = False) -> Subscription:
    """Push of a query's results, from the current answer on or from a kept cycle on; or of its rows once they are final."""
    definition = session.definition(name)
    if final and changes:
        hint = "a final row never leaves: leave out WITH CHANGES"
        raise error("not_supported", feature="FINAL together with changes", hint=hint)
    if final:
        check_final(session, definition, None)
    session.wait_for_query(definition)
    return Subscription(session.standing, name, from_cycle, changes, final)


def check_final(session: Session, definition: QueryDefinition, as_of: PastMoment) -> None:
    """Raise where FINAL of a query would never have a row."""
    if isinstance(as_of, AsOf) and as_of.cycle is None:
        hint = "ask as of a cycle, or without FINAL: what is known today about that time is the answer"
        raise error("not_supported", feature="FINAL as of a time", hint=hint)
    plan = session.standing.plan_of(definition)
    check_has_final_rows(definition.name, classify(plan, session.catalog.state).final)


def plan_of(session: Session, select: st.Select, standing: bool, state: CatalogState | None = None) -> Plan:
    """How a SELECT runs. Its tree is spent afterwards."""
    state = state or session.catalog.state.frozen()  # a name that was found must not be gone a line later
    return plan_query(select, state, standing, SYSTEM_TABLES, shared=standing, joins=True, spent=True)


def select(session: Session, statement: st.Select, keep: Callable[[int, SparkPlan], None] | None = None) -> Result:
    """`keep` takes the plan and the journal position that it holds for, where the same question may be asked again."""
    state = session.catalog.state.frozen()
    name = invocation_of(statement, state)
    if name is not None:
        # The client expects its acknowledged writes in the answer; GET /v1/queries/NAME/rows does not wait.
        session.wait_for_own_writes()
        try:
            return invoke(session, name, statement.as_of, final=statement.final_at is not None)
        except PenstockError as failure:
            refused = failure.condition == "not_supported" and statement.final_at is not None
            raise statement.source.point(failure, statement.final_at) if refused else failure from None
    sliced = asked_of_slices(statement, state)
    if sliced is not None:
        return answered_from_log(session, sliced)
    asked = asked_of_rollup(session, statement)
    found = rolled_up(session, asked) if asked is not None else None
    if found is not None:
        return found
    plan = plan_of(session, statement, standing=False, state=state).spark
    assert plan is not None  # only cycles run kernels
    if keep is not None and asked is None:
        keep(state.position, plan)
    return answered(session, plan)


def asked_of_rollup(session: Session, statement: st.Select) -> AggregatePlan | None:
    """The plan of a question that a rollup can help to answer, wherever its window begins."""
    state = session.catalog.state.frozen()
    asked = asked_once(statement, state) if state.rollups else None
    return asked if asked is not None and find_match(asked, state) is not None else None


def rolled_up(session: Session, asked: AggregatePlan) -> Result | None:
    """The answer with what a rollup has of readings that the log has no more; None where there is nothing of that."""
    session.wait_for_own_writes()
    with session.statements.turn("heavy"):
        found = answer_from_rollup(session.standing, asked)
    return None if found is None else session.completeness.say(found, asked, None, session.catalog.state)


def answered_from_log(session: Session, asked: AggregatePlan) -> Result:
    """The answer to a question that Spark SQL cannot evaluate."""
    session.wait_for_own_writes()
    with session.statements.turn("heavy"):
        found = answer_from_log(session.standing, asked)
    return session.completeness.say(found, asked, None, session.catalog.state)


def answered(session: Session, plan: SparkPlan) -> Result:
    """The answer to a question that is asked once, with what was acknowledged before."""
    session.wait_for_own_writes()
    with session.statements.turn("heavy"):
        found, _ = answer_once(session, plan)
    notices = (*found.notices, *_unobserved(session, plan, found.table))
    result = Result(found.table, cycle=found.cycle, now_us=found.now_us, notices=notices)
    return session.completeness.say(result, plan, None, session.catalog.state)


def answer_once(session: Session, plan: SparkPlan) -> tuple[Evaluation, str | None]:
    """The answer, and why Spark gave it where the log, or a tree over another query's answer, might have."""
    found, reason = None, None
    try:
        found = once_of(plan).answer(session, plan)
    except NotAnswered as declined:
        reason = str(declined)
    return found if found is not None else session.evaluator.run(plan, None), reason


def _unobserved(session: Session, plan: SparkPlan, table: pa.Table) -> tuple[str, ...]:
    """A hint where an empty answer only means that no sensor of a table has been opened yet."""
    if table.num_rows:
        return ()
    heads, tables = session.log.heads(), session.catalog.state.tables
    streams = [r.table for r in plan.relations if r.kind == "stream" and r.table in tables]
    silent = [name for name in streams if not heads.get(tables[name].id)]
    return tuple(
        f'nothing has been observed of "{name}" yet: a one-shot SELECT opens no sensor; CREATE QUERY does'
        for name in silent
    )


def refuse_subscribe(session: Session, statement: st.Subscribe) -> Result:
    """SUBSCRIBE needs a line that stays open."""
    session.definition(statement.name)
    if statement.final_at is not None:
        try:
            check_final(session, session.definition(statement.name), None)
        except PenstockError as failure:
            refused = failure.condition == "not_supported"
            raise statement.source.point(failure, statement.final_at) if refused else failure from None
    hint = f"use `penstock sql`, the client's subscribe, or GET /v1/queries/{statement.name}/events"
    raise error("not_supported", feature="SUBSCRIBE in a single request", hint=hint)
