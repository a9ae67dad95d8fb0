"""Execute statements: calls the function for each kind of statement."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from penstock.cache import Cache
from penstock.cycle.definitions import loading
from penstock.errors import PenstockError, error
from penstock.operators.base.once import once_of
from penstock.security.caller import current_caller, require
from penstock.sql import statements as st
from penstock.sql.parse import parse_script
from penstock.sql.plan import SparkPlan
from penstock.statements import admin, definitions, explain, permissions, query_statements, select, show, sinks
from penstock.statements.session import Session, done
from penstock.views.results import Result

# These are never kept waiting: with them a user finds out what holds the others up, and ends it.
PROMPT = (st.Show, st.CancelStatement)
PLANS_KEPT = 256
PLAN_TEXT_MAX = 10_000
Params = Sequence[Any] | Mapping[str, Any] | None


class Executor:
    """Runs statements against one session.

    It keeps the plans of questions that aggregate trees answer: parsing and planning take longer than the answer. Other
    questions wait for Spark anyway.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._plans: Cache[str, tuple[int, SparkPlan]] = Cache(most=PLANS_KEPT)  # with the journal position

    def execute(self, sql: str, params: Params = None, owner: str | None = None) -> Result:
        """Run one or more statements; the last one's result. `owner` is the owner of new queries that name none."""
        with self._session.statements.enter("a script", permissions.the_caller(self._session.users)):
            return self._execute(sql, params, owner)

    def _execute(self, sql: str, params: Params, owner: str | None) -> Result:
        with self._lock:
            position, plan = self._plans.get(sql) or (None, None)
        if not params and plan is not None and position == self._session.catalog.state.position:
            self._session.statements.next_step(sql)
            with self._session.statements.turn("light"):
                return self._answer_again(sql, plan)
        result = done("OK")
        on_error: st.OnError = "none"
        with loading():
            statements = parse_script(sql, params)
            steps = list(query_statements.runs(statements))
        permissions.check_statements(statements, self._session.users, self._session.audit)
        owner = owner or _user()
        for step in steps:
            statement = step[0] if isinstance(step, list) else step
            self._session.statements.next_step(permissions.shown_text(statement))
            try:
                if isinstance(step, st.SetOnError):
                    on_error, result = step.choice, done("SET")
                elif isinstance(step, PROMPT):
                    result = self._run(step)
                else:
                    with self._session.statements.turn("light"):
                        keep = partial(self._keep, sql) if len(steps) == 1 and not params else None
                        result = self._run_step(step, on_error, owner, keep)
            except PenstockError as failure:
                self._session.damage.note_failure(failure)
                self._note(step, failure.condition)
                if failure.sql is None:
                    statement.point(failure)
                raise
            self._note(step, "done")
        return result

    def _run_step(
        self,
        step: st.Statement | list[query_statements.Registering],
        on_error: st.OnError,
        owner: str | None,
        keep: Callable[[int, SparkPlan], None] | None,
    ) -> Result:
        if isinstance(step, list):
            return query_statements.create_queries(self._session, step, on_error, owner)
        if isinstance(step, st.CreateSink):
            return sinks.create_sink(self._session, step, owner)
        if isinstance(step, st.Select):
            return select.select(self._session, step, keep)
        return self._run(step)

    def _note(self, step: st.Statement | list[query_statements.Registering], outcome: str) -> None:
        """One line of the audit per change, done or refused."""
        first = step[0] if isinstance(step, list) else step
        if not isinstance(first, permissions.READ):
            names = [query.name for query in step] if isinstance(step, list) else permissions.names_of(step)
            self._session.audit.note(permissions.action_of(first), names, outcome)

    def _keep(self, sql: str, position: int, plan: SparkPlan) -> None:
        if once_of(plan).plans_are_kept and len(sql) <= PLAN_TEXT_MAX:
            with self._lock:
                self._plans.put(sql, (position, plan))

    def _answer_again(self, sql: str, plan: SparkPlan) -> Result:
        try:
            return select.answered(self._session, plan)
        except PenstockError as failure:
            if failure.sql is None:
                next(iter(parse_script(sql))).point(failure)
            raise

    def register(
        self, queries: Sequence[Mapping[str, Any]], on_error: st.OnError, owner: str | None
    ) -> list[dict[str, Any]]:
        """CREATE QUERY for records; what each of them became is in the audit."""
        caller = permissions.the_caller(self._session.users)
        require(caller, "write", "CREATE QUERY")
        statements = self._session.statements
        try:
            with statements.enter(f"CREATE QUERY, {len(queries)} of them", caller), statements.turn("light"):
                done = query_statements.register(self._session, queries, on_error, owner or _user())
        except PenstockError as failure:
            self._session.audit.note("CREATE QUERY", [str(query["name"]) for query in queries], failure.condition)
            raise
        for outcome in sorted({_outcome(query) for query in done}):
            names = [query["name"] for query in done if _outcome(query) == outcome]
            self._session.audit.note("CREATE QUERY", names, outcome)
        return done

    def _run(self, statement: st.Statement) -> Result:
        if isinstance(statement, st.Transaction):
            return done(statement.kind)
        if isinstance(statement, st.CancelStatement):
            self._session.statements.cancel(statement.id, permissions.the_caller(self._session.users))
            return done("CANCEL STATEMENT")
        if type(statement) not in _FUNCTIONS:
            raise error("not_supported", feature=type(statement).__name__)
        return _FUNCTIONS[type(statement)](self._session, statement)


# What runs a statement, by its kind; those that need more than the session and the statement are not listed.
_FUNCTIONS: dict[type[st.Statement], Callable[[Session, Any], Result]] = {
    st.CreateStreamType: definitions.create_stream_type,
    st.CreateTable: definitions.create_table,
    st.CreateFunction: definitions.create_function,
    st.CreateRollup: definitions.create_rollup,
    st.AddColumn: definitions.add_column,
    st.AlterLateness: definitions.alter_lateness,
    st.Drop: definitions.drop,
    st.Insert: definitions.insert,
    st.Update: definitions.update,
    st.Delete: definitions.delete,
    st.AlterQuery: query_statements.alter_query,
    st.DescribeQuery: query_statements.describe_query,
    st.PauseQuery: query_statements.pause_or_resume,
    st.ResumeQuery: query_statements.pause_or_resume,
    st.CreateUser: admin.create_user,
    st.AlterUser: admin.alter_user,
    st.CreateToken: admin.create_token,
    st.DropAccounts: admin.drop_accounts,
    st.AlterSink: sinks.alter_sink,
    st.Subscribe: select.refuse_subscribe,
    st.Show: show.show,
    st.Describe: show.describe,
    st.Explain: explain.explain,
    st.AcceptClock: admin.accept_clock,
    st.AcceptDamage: admin.accept_damage,
}


def _user() -> str | None:
    """The name of the calling user; None where the caller is no user."""
    caller = current_caller()
    return caller.user if caller is not None else None


def _outcome(query: Mapping[str, Any]) -> str:
    return "done" if query["error"] is None else str(query["error"]["condition"])
