"""POST /v1/sql: statements in, the last one's answer out."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.server.http.body import read_model
from penstock.server.http.context import context_of, user_of
from penstock.server.http.encode import choose_format, encode_result
from penstock.server.http.roles import needs
from penstock.server.models import SqlRequest
from penstock.server.openapi import ANSWER, ERRORS, json_body
from penstock.server.routes.statements import run_statement

router = APIRouter(prefix="/v1", tags=["sql"])

_EXAMPLE = {"sql": "SELECT s.location, s.reading.ppm FROM sensors s WHERE s.reading.ppm > $1", "params": [35]}


@router.post(
    "/sql",
    summary="Run one or more statements",
    responses={**ANSWER, **ERRORS},
    response_class=Response,
    openapi_extra=json_body(SqlRequest, _EXAMPLE),
)
@needs("read")
async def run_sql(request: Request) -> Response:
    """Answers the last statement. The first that fails ends the run; those before it stay done.

    Reading is enough to call it; each statement asks for the role it needs, before the first one runs.
    CREATE QUERY statements that follow each other are registered together, all or none.
    A client that closes the connection cancels the statement.
    """
    context = context_of(request)
    media_type = choose_format(request.headers.get("accept"))
    asked = await read_model(request, context, SqlRequest)

    def work() -> Response:
        return encode_result(context.database.execute(asked.sql, asked.params, user_of(request)), media_type)

    return await run_statement(request, context, work, asked.timeout_s)
