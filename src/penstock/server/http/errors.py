"""Every refusal as the same JSON body, wherever it comes from."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.errors import PenstockError, error

log = logging.getLogger("penstock.server")


def error_response(problem: PenstockError) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else {}
    if problem.status == 503:
        headers["Retry-After"] = "2"
    if problem.condition == "rate_limited":
        headers["Retry-After"] = str(math.ceil(problem.retry_after_s or 1))
    return Response(orjson.dumps(problem.body()), problem.status, headers, media_type="application/json")


def internal_error() -> PenstockError:
    """What is told of a surprise, which the log has."""
    return error("internal_error", detail="the server met a problem of its own; its log has the details")


def translated(request: Request, problem: Exception) -> PenstockError:
    """What Starlette and FastAPI refuse themselves: unknown paths and methods, unreadable requests, wrong parameters."""
    if isinstance(problem, PenstockError):
        return problem
    if isinstance(problem, RequestValidationError):
        return error("invalid_parameter", detail=first_mistake(problem.errors(), skip=1))
    assert isinstance(problem, HTTPException)
    if problem.status_code == 404:
        detail = f"there is nothing at {request.url.path}"
        return error("not_found", detail=detail, hint="GET /openapi.json lists what there is")
    if problem.status_code == 405:
        allowed = (problem.headers or {}).get("Allow")
        detail = f"{request.method} is not allowed at {request.url.path}"
        return error("method_not_allowed", detail=detail, hint=f"allowed: {allowed}" if allowed else None)
    condition = "invalid_parameter" if problem.status_code < 500 else "internal_error"
    return error(condition, detail=str(problem.detail))


def first_mistake(mistakes: Sequence[Any], skip: int = 0) -> str:
    """The first that Pydantic found: where, without the first `skip` parts of the place, and what."""
    where = ".".join(str(part) for part in mistakes[0]["loc"][skip:])
    return f"{where}: {mistakes[0]['msg']}" if where else str(mistakes[0]["msg"])


class ErrorBoundary:
    """The outermost layer: nothing leaves but answers and error bodies. Surprises are logged, not shown."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except PenstockError as problem:
            if started:
                raise
            await error_response(problem)(scope, receive, send)
        except Exception:
            if started or scope["type"] != "http":
                raise
            log.exception("%s %s failed", scope["method"], scope["path"])
            await error_response(internal_error())(scope, receive, send)


def add_handlers(app: FastAPI) -> None:
    """Translate what FastAPI raises."""

    async def answer(request: Request, problem: Exception) -> Response:
        response = error_response(translated(request, problem))
        if isinstance(problem, HTTPException) and problem.headers and "Allow" in problem.headers:
            response.headers["Allow"] = problem.headers["Allow"]
        return response

    for kind in (PenstockError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer)
