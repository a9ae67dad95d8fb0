"""POST /v1/sql: statements in, the last one's answer out. /v1/statements: what runs right now, and its end.

A statement runs for as long as its client waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.cancellation import Cancellation, cancelled_by
from penstock.clock import format_timestamp
from penstock.server.http.body import read_model
from penstock.server.http.context import Context, caller_of, context_of, needs, until_gone, user_of
from penstock.server.http.encode import choose_format, encode_result, json_response
from penstock.server.http.thread_pools import Pool
from penstock.server.models import ANSWER, ERRORS, SqlRequest, StatementReports, json_body

T = TypeVar("T")
router = APIRouter(prefix="/v1", tags=["sql"], responses=ERRORS)
_EXAMPLE = {"sql": "SELECT s.location, s.reading.ppm FROM sensors s WHERE s.reading.ppm > $1", "params": [35]}


@router.post(
    "/sql",
    summary="Run one or more statements",
    responses=ANSWER,
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


@router.get(
    "/statements",
    summary="Statements that run now",
    responses={200: {"model": StatementReports, "description": "one's own; an admin sees all"}},
)
@needs("read")
async def list_statements(request: Request) -> Response:
    context = context_of(request)
    found = await context.workers.system.run(context.database.running_statements)
    reports = [{**facts, "started": format_timestamp(facts["started"])} for facts in found]
    return json_response({"statements": reports})


@router.delete("/statements/{id}", summary="Cancel", responses={204: {"description": "it ends"}})
@needs("read")
async def cancel_statement(id: str, request: Request) -> Response:
    """Needs no more than to read, because it ends one's own statements; an admin ends any."""
    context = context_of(request)
    await context.workers.system.run(context.database.cancel_statement, id)
    return Response(status_code=204)


async def run_statement(
    request: Request, context: Context, work: Callable[[], Response], timeout_s: float | None
) -> Response:
    """Do the work in a thread; a client that leaves cancels it."""
    cancellation = Cancellation(timeout_s)
    with cancelled_by(cancellation):
        working = asyncio.ensure_future(in_turn(request, context, context.workers.statement, work))
    leaving = asyncio.ensure_future(until_gone(request.receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            cancellation.cancel("the client closed the connection")
        return await working
    except asyncio.CancelledError:
        cancellation.cancel("the server is stopping")
        raise
    finally:
        leaving.cancel()


async def in_turn(request: Request, context: Context, pool: Pool, work: Callable[[], T]) -> T:
    """Do the work of a body in a thread of a pool; what its user has waiting takes bounded memory."""
    size = getattr(request.state, "model_bytes", 0)
    async with context.workers.shares.share(caller_of(request), size):
        return await pool.run(work)
