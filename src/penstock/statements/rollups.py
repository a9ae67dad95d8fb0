"""CREATE ROLLUP, and EXPLAIN of one."""

from __future__ import annotations

from dataclasses import replace

import orjson

from penstock.catalog.model import Table, plan_text
from penstock.catalog.rollup_records import RollupDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import error
from penstock.operators.aggregate.rollups.notices import rollup_lines
from penstock.sql import statements as st
from penstock.sql.plan import plan_to_json
from penstock.sql.rollups import bind_create_rollup
from penstock.statements.replies import done
from penstock.statements.session import Session
from penstock.streams.log.segments import list_what_is_there
from penstock.streams.maintenance import own_now
from penstock.views.results import Result

ROLLUPS_MAX = 100


def create_rollup(session: Session, statement: st.CreateRollup) -> Result:
    state = session.catalog.state.frozen()
    if statement.if_not_exists and statement.name in state.rollups:
        return done("CREATE ROLLUP")
    found, plan = bind_create_rollup(statement, state)
    if len(state.rollups) >= ROLLUPS_MAX:
        raise error("limit_reached", detail=f"this server keeps at most {ROLLUPS_MAX} rollups", hint="drop some")
    body = plan_to_json(plan)
    try:
        orjson.dumps([[[body]]])  # an entry has it in its body
    except TypeError:
        raise error("syntax_error", detail="the question is nested too deeply") from None
    since_us = _all_there_since(session, state.tables_by_id[found.table_id])
    session.catalog.create_rollup(
        replace(found, stored_plan=plan_text(body), since_us=since_us), statement.if_not_exists
    )
    return done("CREATE ROLLUP")


def _all_there_since(session: Session, table: Table) -> int | None:
    """From which time on retention cannot have taken anything yet."""
    segments = list_what_is_there(session.folder.log, table.id)
    if not segments or table.options.retention_us is None:
        return None
    return own_now(table, segments, session.clock) - table.options.retention_us


def explain_rollup(session: Session, rollup: RollupDefinition, state: CatalogState) -> list[str]:
    rolled = state.rolled_up(rollup.id)
    return rollup_lines(rollup, rolled, session.rollups.failures.get(rollup.id)) if rolled is not None else []
