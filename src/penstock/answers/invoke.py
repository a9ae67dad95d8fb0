"""Invoke and subscribe: the answer of a standing query, at a cycle or a time, and push of its changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.answers.as_of import answer_as_of
from penstock.answers.subscription import SelectSubscription, Subscription
from penstock.database.damage import note_failure
from penstock.errors import PenstockError
from penstock.security.caller import LOCAL, current_caller
from penstock.sql.parse import parse_as_of
from penstock.sql.plan import plan_from_json
from penstock.sql.statement_parts import AsOf
from penstock.views.results import Result

if TYPE_CHECKING:
    from penstock.database.database import Database


def invoke(database: Database, name: str, as_of: int | str | AsOf | None, limit: int | None) -> Result:
    """The answer of a standing query for its window as of the last cycle, an older one, or a past time."""
    statements = database.statements
    try:
        with statements.enter(f"SELECT * FROM {name}", current_caller() or LOCAL), statements.light_turn():
            return _invoke(database, name, as_of, limit)
    except PenstockError as failure:
        note_failure(database, failure)
        raise


def _invoke(database: Database, name: str, as_of: int | str | AsOf | None, limit: int | None) -> Result:
    began = time.thread_time()
    definition = database.definition(name)
    database.wait_for_query(definition)
    plan = plan_from_json(definition.plan)
    if isinstance(as_of, str):
        as_of = parse_as_of(as_of)
    cycle = as_of.cycle if isinstance(as_of, AsOf) else as_of
    if isinstance(as_of, AsOf) and cycle is None:
        with database.statements.heavy_turn():
            result = answer_as_of(database, definition, as_of, limit)
    else:
        result = database.standing.invoke(name, cycle, limit)
    database.usage.note(definition.id, database.clock.now_us())
    said = database.completeness.say(result, plan, definition.start_us, database.catalog.state)
    database.costs.note_asked(definition.id, time.thread_time() - began)
    return said


def subscribe(database: Database, name: str, from_cycle: int | None, changes: bool) -> Subscription:
    """Push of a query's results, from the current answer on or from a kept cycle on."""
    definition = database.definition(name)
    database.wait_for_query(definition)
    return SelectSubscription(database.standing, name, from_cycle, changes)
