"""CREATE SINK and ALTER SINK."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.errors import PenstockError, error, suggest
from penstock.sinks.registry import check_sink
from penstock.sql import statements as st
from penstock.sql.plan import plan_from_json
from penstock.statements.replies import done
from penstock.statements.session import Session
from penstock.types import Field
from penstock.views.results import Result


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
        kind = check_sink(statement.kind, options, columns_of(query))
    except PenstockError as failure:
        named = [o.at for o in statement.options if failure.message.startswith(f'option "{o.name.lower()}":')]
        raise statement.source.point(failure, named[0] if named else statement.kind_at) from None
    session.catalog.create_sink(statement.name, query, kind.name, options, owner, session.settings.sinks_max)
    return done("CREATE SINK")


def _options(statement: st.CreateSink) -> dict[str, str]:
    found: dict[str, str] = {}
    for option in statement.options:
        name = option.name.lower()
        if name in found:
            raise statement.source.point(error("invalid_option", option=name, detail="it is given twice"), option.at)
        found[name] = option.value
    return found


def columns_of(query: QueryDefinition) -> tuple[Field, ...]:
    """The columns of a query's answer."""
    return tuple(Field(name, type_) for name, type_ in plan_from_json(query.plan).columns)


def alter_sink(session: Session, statement: st.AlterSink) -> Result:
    session.catalog.change_sink(statement.name, statement.paused)
    return done("ALTER SINK")
