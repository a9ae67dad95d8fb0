"""/v1/queries: standing queries, registered, shown, changed, invoked and dropped. /v1/tables: the tables, with live state per sensor."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from penstock.errors import error
from penstock.server.http.body import read_model
from penstock.server.http.context import context_of, user_of
from penstock.server.http.encode import choose_format, encode_result, json_response
from penstock.server.models import ANSWER, ERRORS, NewQueries, QueryChange, Registrations, json_body
from penstock.server.routes.statements import in_turn, run_statement

router = APIRouter(prefix="/v1/queries", tags=["queries"], responses=ERRORS)


def quoted(name: str) -> str:
    """A name as SQL reads it back exactly."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A text as SQL reads it back exactly."""
    return "'" + text.replace("'", "''") + "'"


@router.get("", summary="List standing queries")
async def list_queries(request: Request) -> Response:
    context = context_of(request)
    return await context.workers.catalog.run(lambda: json_response({"queries": context.database.queries()}))


@router.post(
    "",
    summary="Register one or many",
    responses={201: {"model": Registrations, "description": "what became of each"}},
    status_code=201,
    openapi_extra=json_body(
        NewQueries,
        {"queries": [{"name": "gas_alarm", "sql": "SELECT s.location FROM sensors s WHERE s.reading.ppm > 35"}]},
    ),
)
async def register_queries(request: Request) -> Response:
    """With `on_error` = `none` one refusal refuses all, with its error; with `rest` each one says for itself."""
    context = context_of(request)
    asked = await read_model(request, context, NewQueries)
    wanted = [query.model_dump(exclude_none=True) for query in asked.queries]
    for query in wanted:
        if query.get("strategy") == "auto":
            del query["strategy"]
    register, pool = context.database.register, context.workers.catalog
    done = await in_turn(request, context, pool, lambda: register(wanted, asked.on_error, user_of(request)))
    return json_response({"queries": done}, 201)


@router.get("/{name}", summary="Definition, state and cost")
async def get_query(name: str, request: Request) -> Response:
    context = context_of(request)
    return await context.workers.catalog.run(lambda: json_response(context.database.query(name)))


@router.patch(
    "/{name}",
    summary="Change the window, pause, resume, describe",
    openapi_extra=json_body(QueryChange, {"begin": "NOW - 1 HOUR"}),
)
async def change_query(name: str, request: Request) -> Response:
    """Answers the definition after the change."""
    context = context_of(request)
    change = await read_model(request, context, QueryChange)
    statements = change_statements(name, change)

    def work() -> Response:
        for statement in statements:
            context.database.execute(statement)
        return json_response(context.database.query(name))

    return await in_turn(request, context, context.workers.catalog, work)


def change_statements(name: str, change: QueryChange) -> list[str]:
    """The ALTER QUERY statements that a PATCH stands for."""
    statements = []
    ends = [f"{word} ({text})" for word, text in (("BEGIN", change.begin), ("END", change.end)) if text is not None]
    for text in (change.begin, change.end):
        if text is not None and (";" in text or "--" in text or "/*" in text):
            raise error("invalid_window", detail=f'"{text}" is not a time', hint="for example NOW - 1 HOUR")
    if ends:
        statements.append(f"ALTER QUERY {quoted(name)} SET {' '.join(ends)}")
    if change.paused is not None:
        statements.append(f"ALTER QUERY {quoted(name)} {'PAUSE' if change.paused else 'RESUME'}")
    if change.description is not None:
        statements.append(f"COMMENT ON QUERY {quoted(name)} IS {text_literal(change.description)}")
    if change.owner is not None:
        statements.append(f"ALTER QUERY {quoted(name)} OWNER TO {text_literal(change.owner)}")
    if change.strategy is not None:
        statements.append(f"ALTER QUERY {quoted(name)} SET STRATEGY {change.strategy}")
    if change.priority is not None:
        statements.append(f"ALTER QUERY {quoted(name)} SET PRIORITY {change.priority}")
    if not statements:
        hint = "begin, end, paused, description, owner, priority or strategy"
        raise error("invalid_body", detail="nothing to change", hint=hint)
    return statements


@router.delete("/{name}", summary="Drop", responses={204: {"description": "gone"}})
async def drop_query(name: str, request: Request, cascade: bool = Query(default=False)) -> Response:
    context = context_of(request)
    statement = f"DROP QUERY {quoted(name)}" + (" CASCADE" if cascade else "")
    await context.workers.catalog.run(context.database.execute, statement)
    return Response(status_code=204)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the rows of an answer."""

    limit: int | None = Query(default=None, ge=0, description="most rows to send")
    offset: int = Query(default=0, ge=0, description="rows to leave out before them")


@router.get("/{name}/rows", summary="Invoke", responses=ANSWER)
async def invoke_query(
    name: str,
    request: Request,
    as_of: str | None = Query(default=None, description="a committed cycle, a time, or NOW - 10 MINUTES"),
    page: Page = Depends(),
    timeout_s: float | None = Query(default=None, gt=0, description="most seconds that it may take"),
    final: bool = Query(default=False, description="only rows that no later reading can change"),
) -> Response:
    """The answer for the window as of now, as of a committed cycle or as of a past time.

    To read it page by page, give the cycle of the first page as `as_of` of the others.
    """
    context = context_of(request)
    media_type = choose_format(request.headers.get("accept"))

    def work() -> Response:
        moment = int(as_of) if as_of is not None and as_of.isdecimal() else as_of
        return encode_result(context.database.invoke(name, moment, page.limit, page.offset, final), media_type)

    return await run_statement(request, context, work, timeout_s)


tables = APIRouter(prefix="/v1/tables", tags=["tables"], responses=ERRORS)


@tables.get("", summary="List tables")
async def list_tables(request: Request) -> Response:
    context = context_of(request)
    return await context.workers.catalog.run(lambda: json_response({"tables": context.database.tables()}))


@tables.get("/{table}", summary="One table: columns, key, stream, options")
async def get_table(table: str, request: Request) -> Response:
    context = context_of(request)
    return await context.workers.catalog.run(lambda: json_response(context.database.table(table)))


@tables.get("/{table}/sensors", summary="Sensors with their live state")
async def list_sensors(table: str, request: Request) -> Response:
    context = context_of(request)
    return await context.workers.catalog.run(lambda: json_response({"sensors": context.database.sensors(table)}))
