"""SELECT: evaluates it once, or reads the answer of a standing query by name."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.catalog.state import CatalogState
from penstock.catalog.system_columns import SYSTEM_TABLES
from penstock.errors import error
from penstock.operators.aggregate.rollups.once import answer_from_log
from penstock.operators.aggregate.rollups.once import answer_once as answer_from_rollup
from penstock.operators.aggregate.rollups.rollup_choice import find_match
from penstock.operators.aggregate.trees.answer_columns import NotAnswered
from penstock.operators.resample.once import resampled_once
from penstock.operators.sparksql.evaluation_rows import Evaluation
from penstock.sql import statements as st
from penstock.sql.plan import Plan, SparkPlan
from penstock.sql.planning.one_shot import OneShotAggregate, asked_of_slices, asked_once
from penstock.sql.planning.planner import invocation_of, plan_query
from penstock.views.results import Result

if TYPE_CHECKING:
    from penstock.database.database import Database


def plan_of(database: Database, select: st.Select, standing: bool, state: CatalogState | None = None) -> Plan:
    """How a SELECT runs. Its tree is spent afterwards."""
    state = state or database.catalog.state.frozen()  # a name that was found must not be gone a line later
    return plan_query(select, state, standing, SYSTEM_TABLES, shared=standing, joins=True, spent=True)


def select(database: Database, statement: st.Select, alone: str | None = None) -> Result:
    """`alone`: the whole text, where there is nothing else in it and no parameters; it may be asked again."""
    state = database.catalog.state.frozen()
    name = invocation_of(statement, state)
    if name is not None:
        # The client expects its acknowledged writes in the answer; GET /v1/queries/NAME/rows does not wait.
        database.wait_for_own_writes()
        return database.invoke(name, statement.as_of)
    sliced = asked_of_slices(statement, state)
    if sliced is not None:
        return answered_from_log(database, sliced)
    asked = asked_of_rollup(database, statement)
    found = rolled_up(database, asked) if asked is not None else None
    if found is not None:
        return found
    plan = plan_of(database, statement, standing=False, state=state)
    assert isinstance(plan, SparkPlan)
    if alone is not None and asked is None:
        database.known_questions.keep(alone, state.position, plan)
    return answered(database, plan)


def asked_of_rollup(database: Database, statement: st.Select) -> OneShotAggregate | None:
    """The plan of a question that a rollup can help to answer, wherever its window begins."""
    state = database.catalog.state.frozen()
    asked = asked_once(statement, state) if state.rollups else None
    return asked if asked is not None and find_match(asked.plan, state) is not None else None


def rolled_up(database: Database, asked: OneShotAggregate) -> Result | None:
    """The answer with what a rollup has of readings that the log has no more; None where there is nothing of that."""
    database.wait_for_own_writes()
    with database.statements.heavy_turn():
        found = answer_from_rollup(database.standing, asked)
    return None if found is None else database.completeness.say(found, asked.plan, None, database.catalog.state)


def answered_from_log(database: Database, asked: OneShotAggregate) -> Result:
    """The answer to a question that Spark SQL cannot evaluate."""
    database.wait_for_own_writes()
    with database.statements.heavy_turn():
        found = answer_from_log(database.standing, asked)
    return database.completeness.say(found, asked.plan, None, database.catalog.state)


def answered(database: Database, plan: SparkPlan) -> Result:
    """The answer to a question that is asked once, with what was acknowledged before."""
    database.wait_for_own_writes()
    with database.statements.heavy_turn():
        found = answer_once(database, plan)
    notices = (*found.notices, *_unobserved(database, plan, found.table))
    result = Result(found.table, cycle=found.cycle, now_us=found.now_us, notices=notices)
    return database.completeness.say(result, plan, None, database.catalog.state)


def answer_once(database: Database, plan: SparkPlan) -> Evaluation:
    """Answer a question from the log or from trees over another query's answer where possible, else by Spark."""
    found = resampled_once(database.standing, plan)
    if found is not None:
        return found
    with contextlib.suppress(NotAnswered):
        return database.on_demand.answer(plan)
    return database.evaluator.run(plan, None)


def _unobserved(database: Database, plan: SparkPlan, table: pa.Table) -> tuple[str, ...]:
    """A hint where an empty answer only means that no sensor of a table has been opened yet."""
    if table.num_rows:
        return ()
    heads, tables = database.log.heads(), database.catalog.state.tables
    streams = [r.table for r in plan.relations if r.kind == "stream" and r.table in tables]
    silent = [name for name in streams if not heads.get(tables[name].id)]
    return tuple(
        f'nothing has been observed of "{name}" yet: a one-shot SELECT opens no sensor; CREATE QUERY does'
        for name in silent
    )


def refuse_subscribe(database: Database, statement: st.Subscribe) -> Result:
    """SUBSCRIBE needs a line that stays open."""
    database.definition(statement.name)
    raise error(
        "not_supported",
        feature="SUBSCRIBE in a single request",
        hint=f"use `penstock sql`, the client's subscribe, or GET /v1/queries/{statement.name}/events",
    )
