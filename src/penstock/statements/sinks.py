"""CREATE SINK and ALTER SINK, and the interface through which sinks read the answers of standing queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.answers.subscription import Subscription
from penstock.errors import PenstockError, error, suggest
from penstock.sinks.base import Kind
from penstock.sinks.registry import read_kind
from penstock.sql import statements as st
from penstock.sql.plan import plan_from_json
from penstock.statements.select import check_final, subscribe
from penstock.statements.session import Session, done
from penstock.types import Field
from penstock.views.results import Event, Result


def create_sink(session: Session, statement: st.CreateSink, owner: str | None) -> Result:
    state = session.catalog.state
    if statement.if_not_exists and statement.name in state.sinks:
        return done("CREATE SINK")
    query = state.queries.get(statement.query)
    if query is None:
        missing = error("query_not_found", query=statement.query, hint=suggest(statement.query, state.queries))
        raise statement.source.point(missing, statement.query_at)
    options = _options(statement)
    try:
        columns = [Field(name, type_) for name, type_ in plan_from_json(query.plan).columns]
        kind, parsed = read_kind(statement.kind, options)
        kind.check(columns, parsed)
        if parsed.get("rows") == "final":
            _check_final(kind, parsed)
    except PenstockError as failure:
        named = [o.at for o in statement.options if failure.message.startswith(f'option "{o.name.lower()}":')]
        raise statement.source.point(failure, named[0] if named else statement.kind_at) from None
    if parsed.get("rows") == "final":
        at = next(o.at for o in statement.options if o.name.lower() == "rows")
        try:
            check_final(session, query, None)
        except PenstockError as failure:
            raise statement.source.point(failure, at) from None
    session.catalog.create_sink(statement.name, query, kind.name, options, owner, session.settings.sinks_max)
    return done("CREATE SINK")


def _check_final(kind: Kind, options: Mapping[str, Any]) -> None:
    if options.get("changes"):
        hint = "a final row never leaves: leave out changes"
        raise error("invalid_option", option="rows", detail="final rows have no changes", hint=hint)
    if kind.answers(options):
        hint = "add payload = 'rows'"
        raise error("invalid_option", option="rows", detail="the whole answer is sent, not its rows", hint=hint)


def _options(statement: st.CreateSink) -> dict[str, str]:
    found: dict[str, str] = {}
    for option in statement.options:
        name = option.name.lower()
        if name in found:
            raise statement.source.point(error("invalid_option", option=name, detail="it is given twice"), option.at)
        found[name] = option.value
    return found


def alter_sink(session: Session, statement: st.AlterSink) -> Result:
    session.catalog.change_sink(statement.name, statement.paused)
    return done("ALTER SINK")


class SinkQueries:
    """Gives sinks the answers of standing queries; their reads do not count as invocations."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def subscribe(self, name: str, from_cycle: int | None, changes: bool, final: bool = False) -> Subscription:
        return subscribe(self._session, name, from_cycle, changes, final)

    def answer(self, name: str) -> Event:
        session = self._session
        found = session.standing.invoke(session.definition(name).name)
        if found.cycle is None:
            raise error("not_ready", detail=f'query "{name}" has no answer yet', hint="it comes with a later cycle")
        return Event(found.cycle, found.now_us, found.table)

    def last_cycle(self) -> int:
        last = self._session.standing.feed.last()
        return last.cycle if last is not None else 0
