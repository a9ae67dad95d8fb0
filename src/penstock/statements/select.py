"""SELECT: evaluates it once, or reads the answer of a standing query by name."""

from __future__ import annotations

import pyarrow as pa

from penstock.catalog.state import CatalogState
from penstock.catalog.system_columns import SYSTEM_TABLES
from penstock.errors import error
from penstock.operators.aggregate.rollups.once import answer_from_log
from penstock.operators.aggregate.rollups.once import answer_once as answer_from_rollup
from penstock.operators.aggregate.rollups.rollup_read import find_match
from penstock.operators.aggregate.trees.answer_columns import NotAnswered
from penstock.operators.sparksql.evaluation_rows import Evaluation
from penstock.sql import statements as st
from penstock.sql.plan import AggregatePlan, Plan, SparkPlan
from penstock.sql.planning.planner import asked_of_slices, asked_once, invocation_of, plan_query
from penstock.statements.invoke import invoke
from penstock.statements.session import Session
from penstock.views.results import Result


def plan_of(session: Session, select: st.Select, standing: bool, state: CatalogState | None = None) -> Plan:
    """How a SELECT runs. Its tree is spent afterwards."""
    state = state or session.catalog.state.frozen()  # a name that was found must not be gone a line later
    return plan_query(select, state, standing, SYSTEM_TABLES, shared=standing, joins=True, spent=True)


def select(session: Session, statement: st.Select, alone: str | None = None) -> Result:
    """`alone`: the whole text, where there is nothing else in it and no parameters; it may be asked again."""
    state = session.catalog.state.frozen()
    name = invocation_of(statement, state)
    if name is not None:
        # The client expects its acknowledged writes in the answer; GET /v1/queries/NAME/rows does not wait.
        session.wait_for_own_writes()
        return invoke(session, name, statement.as_of, None)
    sliced = asked_of_slices(statement, state)
    if sliced is not None:
        return answered_from_log(session, sliced)
    asked = asked_of_rollup(session, statement)
    found = rolled_up(session, asked) if asked is not None else None
    if found is not None:
        return found
    plan = plan_of(session, statement, standing=False, state=state).spark
    assert plan is not None  # only cycles run kernels
    if alone is not None and asked is None:
        session.known_questions.keep(alone, state.position, plan)
    return answered(session, plan)


def asked_of_rollup(session: Session, statement: st.Select) -> AggregatePlan | None:
    """The plan of a question that a rollup can help to answer, wherever its window begins."""
    state = session.catalog.state.frozen()
    asked = asked_once(statement, state) if state.rollups else None
    return asked if asked is not None and find_match(asked, state) is not None else None


def rolled_up(session: Session, asked: AggregatePlan) -> Result | None:
    """The answer with what a rollup has of readings that the log has no more; None where there is nothing of that."""
    session.wait_for_own_writes()
    with session.statements.heavy_turn():
        found = answer_from_rollup(session.standing, asked)
    return None if found is None else session.completeness.say(found, asked, None, session.catalog.state)


def answered_from_log(session: Session, asked: AggregatePlan) -> Result:
    """The answer to a question that Spark SQL cannot evaluate."""
    session.wait_for_own_writes()
    with session.statements.heavy_turn():
        found = answer_from_log(session.standing, asked)
    return session.completeness.say(found, asked, None, session.catalog.state)


def answered(session: Session, plan: SparkPlan) -> Result:
    """The answer to a question that is asked once, with what was acknowledged before."""
    session.wait_for_own_writes()
    with session.statements.heavy_turn():
        found, _ = answer_once(session, plan)
    notices = (*found.notices, *_unobserved(session, plan, found.table))
    result = Result(found.table, cycle=found.cycle, now_us=found.now_us, notices=notices)
    return session.completeness.say(result, plan, None, session.catalog.state)


def answer_once(session: Session, plan: SparkPlan) -> tuple[Evaluation, str | None]:
    """The answer, and why Spark gave it where the log, or a tree over another query's answer, might have."""
    answer = session.once.get(plan.operator)
    if answer is None:
        return session.evaluator.run(plan, None), None
    try:
        return answer(plan), None
    except NotAnswered as reason:
        return session.evaluator.run(plan, None), str(reason)


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
    raise error(
        "not_supported",
        feature="SUBSCRIBE in a single request",
        hint=f"use `penstock sql`, the client's subscribe, or GET /v1/queries/{statement.name}/events",
    )
