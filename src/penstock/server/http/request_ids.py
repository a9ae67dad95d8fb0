"""A name for every request, in its answer, in every line that is logged for it and in the audit."""

from __future__ import annotations

import logging
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.logs import request_named

log = logging.getLogger("penstock.requests")
HEADER = "X-Request-ID"


class TraceRequests:
    """The outermost layer. A sender may name its request; at INFO each answer is a line."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        with request_named(Headers(scope=scope).get(HEADER)) as name:

            async def watch(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message.get("headers", ()), (HEADER.lower().encode(), name.encode())]
                    if log.isEnabledFor(logging.INFO):
                        _log_answer(scope, message["status"], time.perf_counter() - began)
                await send(message)

            await self._app(scope, receive, watch)


def _log_answer(scope: Scope, status: int, took_s: float) -> None:
    """Log an answer, never with the query string, which may contain secrets."""
    caller = scope.get("penstock.caller")
    facts = {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "ms": round(took_s * 1000, 2),
        "user": getattr(caller, "name", None),
    }
    text = f"{facts['method']} {facts['path']!r} {status} in {facts['ms']} ms"
    log.info("%s", text, extra={"facts": facts})
