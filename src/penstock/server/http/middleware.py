"""What every answer carries: no guessing of types, no frames around us, nothing told to other sites."""

from __future__ import annotations

import logging
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.logs import request_named

_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_POLICY = b"content-security-policy"
# Answers of the API are data: a browser that shows one may load and run nothing for it.
_FOR_DATA = b"default-src 'none'; frame-ancestors 'none'"
# Pages load from us and talk to us only, whatever got into them. NiceGUI makes scripts of its templates.
_FOR_PAGES = (
    b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    b"img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'; "
    b"frame-ancestors 'none'"
)


class SecurityHeaders:
    """Adds them where they are missing; a page that has a policy of its own keeps it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def dress(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_missing(message.get("headers", ()))]
            await send(message)

        await self._app(scope, receive, dress if scope["type"] == "http" else send)


def _missing(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    names = {name.lower(): value for name, value in headers}
    found = [pair for pair in _ALWAYS if pair[0] not in names]
    if _POLICY not in names:
        kind = names.get(b"content-type", b"")
        # A script or a style has no policy of its own: that of the page counts.
        is_data = not kind.startswith((b"text/html", b"text/css", b"text/javascript", b"application/javascript"))
        found.append((_POLICY, _FOR_DATA if is_data else _FOR_PAGES))
    return found


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
