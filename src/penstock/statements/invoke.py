"""Invoke and subscribe: the answer of a standing query, at a cycle or a time, and push of its changes."""

from __future__ import annotations

import time

from penstock.answers.as_of import answer_as_of
from penstock.answers.subscription import SelectSubscription, Subscription
from penstock.errors import PenstockError
from penstock.security.caller import LOCAL, current_caller
from penstock.sql.parse import parse_as_of
from penstock.sql.plan import plan_from_json
from penstock.sql.statements import AsOf
from penstock.statements.session import Session
from penstock.views.results import Result


def invoke(session: Session, name: str, as_of: int | str | AsOf | None, limit: int | None) -> Result:
    """The answer of a standing query for its window as of the last cycle, an older one, or a past time."""
    statements = session.statements
    try:
        with statements.enter(f"SELECT * FROM {name}", current_caller() or LOCAL), statements.light_turn():
            return _invoke(session, name, as_of, limit)
    except PenstockError as failure:
        session.damage.note_failure(failure)
        raise


def _invoke(session: Session, name: str, as_of: int | str | AsOf | None, limit: int | None) -> Result:
    began = time.thread_time()
    definition = session.definition(name)
    session.wait_for_query(definition)
    plan = plan_from_json(definition.plan)
    if isinstance(as_of, str):
        as_of = parse_as_of(as_of)
    cycle = as_of.cycle if isinstance(as_of, AsOf) else as_of
    if isinstance(as_of, AsOf) and cycle is None:
        with session.statements.heavy_turn():
            result = answer_as_of(session.standing, session.evaluator, session.catalog, definition, as_of, limit)
    else:
        result = session.standing.invoke(name, cycle, limit)
    session.usage.note(definition.id, session.clock.now_us())
    said = session.completeness.say(result, plan, definition.start_us, session.catalog.state)
    session.costs.note_asked(definition.id, time.thread_time() - began)
    return said


def subscribe(session: Session, name: str, from_cycle: int | None, changes: bool) -> Subscription:
    """Push of a query's results, from the current answer on or from a kept cycle on."""
    definition = session.definition(name)
    session.wait_for_query(definition)
    return SelectSubscription(session.standing, name, from_cycle, changes)
