"""GET /v1/health and /v1/status: ready or not and why; cycles, rates, lag."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.server.http.context import Context, context_of
from penstock.server.http.encode import json_response
from penstock.server.http.roles import caller_of, needs
from penstock.server.models import HealthReport
from penstock.server.openapi import ERRORS
from penstock.views.results import Health

router = APIRouter(prefix="/v1", tags=["system"])


@router.get(
    "/health",
    summary="Ready or not, and why",
    response_class=Response,
    responses={200: {"model": HealthReport}, 503: {"model": HealthReport, "description": "not ready"}},
)
@needs(None)
async def health(request: Request) -> Response:
    """Answers without a role too, then with one word."""
    context: Context = request.app.state.context
    if context.lifecycle.ready:
        found = await context.workers.system.run(context.database.health)
    else:
        found = Health(False, context.lifecycle.reason)
    if caller_of(request).role is None:
        # A reason may name files, tables and versions.
        found = Health(found.ready, "ready" if found.ready else "unready")
    body = {"ready": found.ready, "reason": found.reason, "details": found.details}
    return json_response(body, 200 if found.ready else 503)


@router.get("/status", summary="Cycles, rates, lag", response_class=Response, responses=ERRORS)
async def status(request: Request) -> Response:
    context = context_of(request)
    return await context.workers.system.run(lambda: json_response(context.database.status()))
