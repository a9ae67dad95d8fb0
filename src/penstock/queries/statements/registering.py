"""CREATE QUERY, one or many, and ALTER QUERY."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from penstock.catalog.catalog import NewQuery
from penstock.errors import PenstockError, error
from penstock.queries.join_budget import check_join_fits
from penstock.queries.moments import now_of_plan
from penstock.queries.results import Result
from penstock.queries.statements.asking import plan_of
from penstock.queries.statements.replies import done
from penstock.sql import statements as st
from penstock.sql.parse import parse_select
from penstock.sql.plan import JoinPlan, Plan, SparkPlan, plan_to_json, stream_uses
from penstock.sql.planner import reads_of
from penstock.sql.retarget import retarget_window

if TYPE_CHECKING:
    from penstock.queries.database import Database


def create_query(database: Database, statement: st.CreateQuery) -> Result:
    if statement.if_not_exists and statement.name in database.catalog.state.queries:
        return done("CREATE QUERY")
    database.catalog.create_queries([_new_query(database, statement.name, statement.select)])
    return done("CREATE QUERY")


def register(
    database: Database, queries: list[tuple[str, str]], on_error: Literal["none", "rest"]
) -> list[dict[str, Any]]:
    made: list[NewQuery] = []
    out: list[dict[str, Any]] = []
    for name, sql in queries:
        try:
            if any(name == q.name for q in made):
                raise error("already_exists", kind="query", name=name)
            made.append(_new_query(database, name, parse_select(sql)))
            out.append({"name": name, "error": None})
        except PenstockError as failure:
            if on_error == "none":
                raise
            out.append({"name": name, "error": failure.body()["error"]})
    database.catalog.create_queries(made)
    return out


def _new_query(database: Database, name: str, select: st.Select) -> NewQuery:
    state = database.catalog.state
    if name in state.queries:
        raise error("already_exists", kind="query", name=name)
    plan = plan_of(database, select, standing=True)
    tables, queries, functions = reads_of(plan, state)
    if isinstance(plan, SparkPlan):
        database.wait_for_own_writes()
        database.spark_queries.admit(plan)
    if isinstance(plan, JoinPlan):
        check_join_fits(plan, database.folder.log, database.settings)
    return NewQuery(name, select.sql, plan_to_json(plan), tables, queries, functions, _start_of(database, plan))


def _start_of(database: Database, plan: Plan) -> int | None:
    """START: the query's NOW at this moment. A transaction-time stream's is the wall clock."""
    state = database.catalog.state
    with database.standing.locked() as store:
        streams = (
            [state.tables[r.table] for r in plan.relations if r.kind == "stream"]
            if isinstance(plan, SparkPlan)
            else [state.tables_by_id[u.table_id] for u in stream_uses(plan)]
        )
        if all(t.options.time == "transaction" for t in streams):
            offset = store.offset
            return max(database.clock.now_us(), offset.now_us if offset is not None else 0)
        try:
            return now_of_plan(plan, store)
        except KeyError:  # the table is newer than the last committed cycle: nothing is known of its time
            return None


def alter_query(database: Database, statement: st.AlterQuery) -> Result:
    definition = database.definition(statement.name)
    text = retarget_window(definition.sql, statement)
    plan = plan_of(database, parse_select(text), standing=True)
    database.catalog.change_query(statement.name, sql=text, plan=plan_to_json(plan))
    return done("ALTER QUERY")


def pause(database: Database, statement: st.PauseQuery) -> Result:
    database.catalog.change_query(statement.name, paused=True)
    return done("ALTER QUERY")


def resume(database: Database, statement: st.ResumeQuery) -> Result:
    database.catalog.change_query(statement.name, paused=False)
    return done("ALTER QUERY")
