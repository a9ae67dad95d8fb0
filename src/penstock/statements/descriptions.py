"""Tables and standing queries as the API and SHOW describe them, and the history of a query's definition."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.catalog.definition_json import quarantined_by
from penstock.catalog.journal import JournalReader
from penstock.catalog.model import QueryDefinition, Table
from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.operators.base.finality import FinalRows, final_to, final_words
from penstock.operators.base.view import classify, view_of
from penstock.operators.select.durability import may_wait
from penstock.sql.plan import Plan, evaluated_by_spark
from penstock.statements.session import Session
from penstock.types import format_duration
from penstock.views.query_state import QueryState

# Cycles wait for this: ten thousand queries are not described all at once.
_AT_ONCE = 250


def describe_table(table: Table) -> dict[str, Any]:
    """Columns, key, stream and options."""
    stream, options = table.stream, table.options
    return {
        "name": table.name,
        "columns": [{"name": c.name, "type": str(c.type)} for c in table.flat_columns()],
        "key": list(table.key),
        "stream": None
        if stream is None
        else {
            "name": stream.name,
            "type": stream.stream_type,
            "connector": stream.connector,
            "fields": [{"name": f.name, "type": str(f.type)} for f in stream.fields],
        },
        "options": {
            "time": options.time,
            "out_of_order": options.out_of_order,
            "retention": format_duration(options.retention_us) if options.retention_us else None,
            "idle": format_duration(options.idle_us),
            "max_ahead": format_duration(options.max_ahead_us),
            "lateness": format_duration(options.lateness_us) if options.lateness_us is not None else None,
            "always_on": options.always_on,
            "discover": options.discover,
        },
    }


def describe_queries(session: Session) -> list[dict[str, Any]]:
    """All standing queries by name: what they are, how they are doing, what they cost."""
    definitions = sorted(session.catalog.state.queries.values(), key=lambda q: q.name)
    described = []
    for first in range(0, len(definitions), _AT_ONCE):
        with session.standing.locked() as store:
            some = definitions[first : first + _AT_ONCE]
            described += [_describe_query(session, d, store.answers.get(d.id)) for d in some]
    return described


def as_told(facts: dict[str, Any]) -> dict[str, Any]:
    """The same with times as the API writes them."""
    times = {name: facts[name] for name in ("last_invoked", "final_to")}
    return {**facts, **{name: format_timestamp(us) if us is not None else None for name, us in times.items()}}


def describe_query(session: Session, definition: QueryDefinition) -> dict[str, Any]:
    with session.standing.locked() as store:
        return _describe_query(session, definition, store.answers.get(definition.id))


def _describe_query(session: Session, definition: QueryDefinition, answer: QueryState | None) -> dict[str, Any]:
    plan = session.standing.plan_of(definition)
    view = view_of(plan.operator)
    store = session.standing.store
    failure = store.evaluations.failure(definition.id)
    message = answer.error if answer is not None else _reader_failure(session, definition.id)
    below = [store.answers[branch] for branch in definition.branches if branch in store.answers]
    message = message or next((branch.error for branch in below if branch.error is not None), None)
    message = failure.message if message is None and failure is not None else message
    message = definition.quarantined or message
    answered = answer is not None or bool(below)
    state, filled = _state(session, definition, plan, answered, message)
    behind = session.standing.behind(definition) if answer is not None else None
    if state in ("RUNNING", "FINISHED") and behind is not None:
        state = "LAGGING"
    kept = answered or plan.spark is not None
    known = classify(plan, session.catalog.state)
    memory = (
        session.standing.memory_of(definition.id) + session.on_demand.trees.memory_of(definition.id) if kept else None
    )
    return {
        "name": definition.name,
        "id": definition.id,
        "sql": definition.sql,
        "owner": definition.owner,
        "description": definition.description,
        "state": state,
        "progress": round(filled[0], 4),
        "fill_left_s": filled[1],
        "runs": view.runs(plan),
        "reason": plan.spark.reason if evaluated_by_spark(plan) and plan.spark is not None else None,
        "window": view.window(plan),
        "matched": sum(map(store.matched, definition.numbers)) if answered else None,
        "error": message,
        "strategy": session.standing.strategy_of(definition.id) if answer is not None else None,
        "strategy_asked": definition.strategy,
        "priority": definition.priority,
        "behind": behind.rows if behind is not None else 0,
        "delay_p95_ms": _delay_ms(session, definition) if plan.kernel is not None else None,
        "final": final_words(known.final),
        "final_to": _final_to(session, definition, known.final),
        "state_bound": f"{known.state.growth}: {known.state.reason}",
        "state_limit": definition.bounded,
        "sleeping": session.standing.strategy_reason(definition.id) if answer is not None and answer.sleeping else None,
        "memory": memory,
        "invocations": session.usage.invocations(definition.id),
        "last_invoked": session.usage.last_us(definition.id),
        "finish_ms": session.standing.finish_ms(definition.id),
        "seconds": session.evaluator.seconds(definition.id),
        **session.costs.of(definition.id),
    }


def _delay_ms(session: Session, definition: QueryDefinition) -> float | None:
    known = session.standing.store.state
    tables = [known.tables[name].id for name in definition.reads_tables if name in known.tables]
    return session.delays.p95_ms(tables, may_wait(known, definition))


def _final_to(session: Session, definition: QueryDefinition, final: FinalRows) -> int | None:
    """Before which time rows are final, of a query with rows that become final later."""
    if final.when != "later" or not session.standing.store.knows(definition.id):
        return None
    with contextlib.suppress(PenstockError):  # it has no answer yet, or none any more
        return final_to(final, session.standing.held(definition.name, asked=False))
    return None


def _state(
    session: Session, definition: QueryDefinition, plan: Plan, answered: bool, message: str | None
) -> tuple[str, tuple[float, float | None]]:
    """Its state, and what part of its history it has read, with the seconds left where they can be told."""
    whole = (1.0, None)
    if definition.quarantined is not None:
        return "FAILED", whole
    if definition.paused:
        return "PAUSED", whole
    if (plan.kernel is not None or plan.branches) and not answered:
        return "STARTING", (0.0, None)
    if message is not None:
        return "FAILED", whole
    filled = view_of(plan.operator).filled(session.standing.store, definition)
    if filled is not None:
        return "FILLING", filled
    return "FINISHED" if definition.id in session.standing.finished else "RUNNING", whole


def _reader_failure(session: Session, query_id: int) -> str | None:
    """The error of a query that reads a join: its own error, or that of the join."""
    store = session.standing.store
    plan = store.spark_plans.get(query_id)
    if plan is None:
        return None
    joins = (store.answers[store.state.queries[name].id].error for name in store.joins_read(query_id))
    return store.reader_failures.get(query_id) or next((why for why in joins if why is not None), None)


@dataclass(frozen=True, slots=True)
class QueryHistoryEntry:
    """One journal entry about a query as readable text: when, at which position, and what changed."""

    at_us: int
    position: int
    what: str
    detail: str


def changes_of_query(folder: Path, query_id: int, name: str) -> list[QueryHistoryEntry]:
    """Changes of a query, oldest first. Reads the whole journal: use it for a page, not in a loop."""
    found: list[QueryHistoryEntry] = []
    before: dict[str, Any] = {}
    for entry in JournalReader(folder).read():
        body, changes = entry.body, []
        if entry.kind == "create_query" and body.get("id") == query_id:
            before, changes = body, [("registered", body["sql"])]
        elif entry.kind == "change_query" and body.get("id") == query_id:
            before, changes = body, [_changed(before, body)]
        elif entry.kind == "quarantine" and query_id in quarantined_by(entry):
            reason = quarantined_by(entry)[query_id]
            before, changes = {**before, "paused": True, "quarantined": reason}, [("quarantined", reason)]
        elif entry.kind == "describe_query" and before and body.get("name") == name:
            # An entry does not name the class normal.
            body, before = ({"priority": "normal", **facts} for facts in (body, before))
            facts = [f for f in ("owner", "description", "strategy", "priority") if body.get(f) != before.get(f)]
            before, changes = {**before, **body}, [(fact, body.get(fact) or "none") for fact in facts]
        found += [QueryHistoryEntry(entry.at_us, entry.pos, what, detail) for what, detail in changes]
    return found


def _changed(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, str]:
    if before.get("paused", False) != after.get("paused", False):
        return ("paused", "") if after.get("paused") else ("resumed", "")
    text = str(after["sql"])
    place = text.upper().rfind("BEGIN")
    return "window", text[place:] if place >= 0 else text
