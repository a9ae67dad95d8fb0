"""Execute statements: calls the function for each kind of statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.cycle.definitions import loading
from penstock.errors import PenstockError, error
from penstock.security.caller import current_caller, require
from penstock.sql import statements as st
from penstock.sql.parse import parse_script
from penstock.sql.plan import SparkPlan
from penstock.statements import (
    accounts,
    alter_query,
    clock,
    create_query,
    damage,
    definitions,
    explain,
    rollups,
    select,
    show,
    sinks,
    static_rows,
)
from penstock.statements.permissions import (
    action_of,
    changes_something,
    check_statements,
    names_of,
    shown_text,
    the_caller,
)
from penstock.statements.replies import done
from penstock.statements.session import Session
from penstock.views.results import Result

# These are never kept waiting: with them a user finds out what holds the others up, and ends it.
PROMPT = (st.Show, st.CancelStatement)
Params = Sequence[Any] | Mapping[str, Any] | None


class Executor:
    """Runs statements against one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def execute(self, sql: str, params: Params = None, owner: str | None = None) -> Result:
        """Run one or more statements; the last one's result. `owner` is the owner of new queries that name none."""
        with self._session.statements.enter("a script", the_caller(self._session.users)):
            return self._execute(sql, params, owner)

    def _execute(self, sql: str, params: Params, owner: str | None) -> Result:
        known = None if params else self._session.known_questions.find(sql, self._session.catalog.state.position)
        if known is not None:
            self._session.statements.next_step(sql)
            with self._session.statements.light_turn():
                return self._answer_again(sql, known)
        result = done("OK")
        on_error: st.OnError = "none"
        with loading():
            statements = parse_script(sql, params)
            steps = list(create_query.runs(statements))
        check_statements(statements, self._session.users, self._session.audit)
        owner = owner or _user()
        for step in steps:
            statement = step[0] if isinstance(step, list) else step
            self._session.statements.next_step(shown_text(statement))
            try:
                if isinstance(step, st.SetOnError):
                    on_error, result = step.choice, done("SET")
                elif isinstance(step, PROMPT):
                    result = self.run(step)
                else:
                    with self._session.statements.light_turn():
                        result = self._run_step(step, on_error, owner, sql if len(steps) == 1 and not params else None)
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
        step: st.Statement | list[create_query.Registering],
        on_error: st.OnError,
        owner: str | None,
        alone: str | None,
    ) -> Result:
        if isinstance(step, list):
            return create_query.create_queries(self._session, step, on_error, owner)
        if isinstance(step, st.CreateSink):
            return sinks.create_sink(self._session, step, owner)
        if isinstance(step, st.Select):
            return select.select(self._session, step, alone)
        return self.run(step)

    def _note(self, step: st.Statement | list[create_query.Registering], outcome: str) -> None:
        """One line of the audit per change, done or refused."""
        first = step[0] if isinstance(step, list) else step
        if changes_something(first):
            names = [query.name for query in step] if isinstance(step, list) else names_of(step)
            self._session.audit.note(action_of(first), names, outcome)

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
        caller = the_caller(self._session.users)
        require(caller, "write", "CREATE QUERY")
        statements = self._session.statements
        try:
            with statements.enter(f"CREATE QUERY, {len(queries)} of them", caller), statements.light_turn():
                done = create_query.register(self._session, queries, on_error, owner or _user())
        except PenstockError as failure:
            self._session.audit.note("CREATE QUERY", [str(query["name"]) for query in queries], failure.condition)
            raise
        for outcome in sorted({_outcome(query) for query in done}):
            names = [query["name"] for query in done if _outcome(query) == outcome]
            self._session.audit.note("CREATE QUERY", names, outcome)
        return done

    def run(self, statement: st.Statement) -> Result:
        session = self._session
        match statement:
            case st.Select():
                return select.select(session, statement)
            case st.CreateStreamType():
                return definitions.create_stream_type(session.catalog, statement)
            case st.CreateTable():
                return definitions.create_table(session.catalog, statement)
            case st.CreateFunction():
                return definitions.create_function(session.catalog, statement)
            case st.CreateRollup():
                return rollups.create_rollup(session, statement)
            case st.AddColumn():
                return definitions.add_column(session.catalog, statement)
            case st.Drop():
                return definitions.drop(session.catalog, statement)
            case st.Insert():
                return static_rows.insert(session, statement)
            case st.Update():
                return static_rows.update(session, statement)
            case st.Delete():
                return static_rows.delete(session, statement)
            case st.AlterQuery():
                return alter_query.alter_query(session, statement)
            case st.DescribeQuery():
                return alter_query.describe_query(session, statement)
            case st.PauseQuery():
                return alter_query.pause(session, statement)
            case st.ResumeQuery():
                return alter_query.resume(session, statement)
            case st.CreateUser():
                return accounts.create_user(session.users, statement)
            case st.AlterUser():
                return accounts.alter_user(session.users, statement)
            case st.CreateToken():
                return accounts.create_token(session.users, statement)
            case st.DropAccounts():
                return accounts.drop_accounts(session.users, statement)
            case st.AlterSink():
                return sinks.alter_sink(session, statement)
            case st.Subscribe():
                return select.refuse_subscribe(session, statement)
            case st.CancelStatement():
                session.statements.cancel(statement.id, the_caller(session.users))
                return done("CANCEL STATEMENT")
            case st.Show():
                return show.show(session, statement)
            case st.Describe():
                return show.describe(session, statement)
            case st.Explain():
                return explain.explain(session, statement)
            case st.AcceptClock():
                return clock.accept_clock(session.clock)
            case st.AcceptDamage():
                return damage.accept_damage(session.damage)
            case st.Transaction():
                return done(statement.kind)
            case _:
                raise error("not_supported", feature=type(statement).__name__)


def _user() -> str | None:
    """The name of the calling user; None where the caller is no user."""
    caller = current_caller()
    return caller.user if caller is not None else None


def _outcome(query: Mapping[str, Any]) -> str:
    return "done" if query["error"] is None else str(query["error"]["condition"])
