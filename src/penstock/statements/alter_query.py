"""ALTER QUERY and COMMENT ON QUERY: a live change of window, pause and resume, owner, description and strategy."""

from __future__ import annotations

from penstock.errors import PenstockError, error
from penstock.expr.windows import TimeWindow
from penstock.operators.join.readers import check_readers
from penstock.sql import statements as st
from penstock.sql.parse import parse_select
from penstock.sql.plan import Plan, QueryAggregatePlan, plan_from_json, stream_uses
from penstock.sql.window_change import retargeted
from penstock.statements.create_query import check_window, notices_of, stored, strategy_unheeded
from penstock.statements.replies import done
from penstock.statements.select import plan_of
from penstock.statements.session import Session
from penstock.types import format_duration
from penstock.views.results import Result


def alter_query(session: Session, statement: st.AlterQuery) -> Result:
    while (plan := _alter(session, statement)) is None:
        pass  # another session was faster: the change is made to what it left
    strategy = session.definition(statement.name).strategy
    return done("ALTER QUERY", notices_of(session.standing, statement.name, plan, strategy, session.catalog.state))


def _alter(session: Session, statement: st.AlterQuery) -> Plan | None:
    """The new plan; None where the definition is not what it was any more."""
    definition = session.definition(statement.name)
    before = plan_from_json(definition.plan)
    if before.latch is not None:
        hint = "its state has begun and has no end; create another query with another BEGIN"
        raise error("not_supported", feature="another window for a query with LATCH", hint=hint)
    changed = retargeted(definition.sql, statement, _unsaid(before))
    try:
        plan = plan_of(session, parse_select(changed.text), standing=True)
        check_window(session.settings, plan)
        if before.pure_join is not None:
            check_readers(statement.name, plan, session.catalog.state)
    except PenstockError as failure:
        raise changed.point(failure) from None
    return plan if session.catalog.retarget_query(definition, changed.text, stored(plan)) else None


def _unsaid(plan: Plan) -> tuple[str, str]:
    """The defaults of BEGIN and END: AVG(x, 5 MINUTES) alone looks five minutes back, over joins, too."""
    windows = [use.window for use in stream_uses(plan)]
    if plan.operator == QueryAggregatePlan.operator:
        windows = [relation.window for relation in plan.relations if relation.window is not None]
    begins = [w.begin.offset_us for w in windows if isinstance(w, TimeWindow) and w.begin.anchor == "now"]
    return (f"NOW - '{format_duration(-min(begins))}'" if begins else "START"), "NOW"


def describe_query(session: Session, statement: st.DescribeQuery) -> Result:
    session.catalog.describe_query(statement.name, **{statement.fact: statement.value})
    if statement.fact != "strategy":
        return done("COMMENT" if statement.fact == "description" else "ALTER QUERY")
    plan = plan_from_json(session.definition(statement.name).plan)
    notice = strategy_unheeded(statement.name, plan, statement.value)
    return done("ALTER QUERY", (notice,) if notice is not None else ())


def pause_or_resume(session: Session, statement: st.PauseQuery | st.ResumeQuery) -> Result:
    session.catalog.change_query(statement.name, paused=isinstance(statement, st.PauseQuery))
    return done("ALTER QUERY")
