"""Every refusal as the same JSON body, wherever it comes from."""

from __future__ import annotations

import logging
import math

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


def from_http(problem: HTTPException, method: str, path: str) -> PenstockError:
    """What Starlette itself refuses: unknown paths, methods, unreadable requests."""
    if problem.status_code == 404:
        return error("not_found", detail=f"there is nothing at {path}", hint="GET /openapi.json lists what there is")
    if problem.status_code == 405:
        allowed = (problem.headers or {}).get("Allow")
        hint = f"allowed: {allowed}" if allowed else None
        return error("method_not_allowed", detail=f"{method} is not allowed at {path}", hint=hint)
    if problem.status_code < 500:
        return error("invalid_parameter", detail=str(problem.detail))
    return error("internal_error", detail=str(problem.detail))


def from_validation(problem: RequestValidationError) -> PenstockError:
    """The first parameter that was wrong."""
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return error("invalid_parameter", detail=f"{where}: {first['msg']}" if where else str(first["msg"]))


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

    async def penstock(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, PenstockError)
        return error_response(problem)

    async def http(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        response = error_response(from_http(problem, request.method, request.url.path))
        if problem.headers and "Allow" in problem.headers:
            response.headers["Allow"] = problem.headers["Allow"]
        return response

    async def validation(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        return error_response(from_validation(problem))

    app.add_exception_handler(PenstockError, penstock)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, validation)
