"""Who may ask: the bearer token, and a guard against web pages that call a server on loopback.

Without a token anybody on this machine may do anything, and that must not include a page in somebody's browser:
a name that is not ours in `Host` (DNS rebinding) or a foreign `Origin` is refused.
"""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.errors import PenstockError, error
from penstock.server.errors import error_response
from penstock.server.listening import is_loopback
from penstock.settings import Settings

# Probes of a load balancer carry no token; what they see without one is only ready or not.
OPEN_PATHS = frozenset({"/v1/health"})


def has_token(headers: Headers, token: str) -> bool:
    """Whether the request carries the token; compared in constant time."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


class AccessGuard:
    """Refuses with `unauthorized` before any handler sees the request."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            problem = self._check(scope["path"], Headers(scope=scope))
            if problem is not None:
                await error_response(problem)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, path: str, headers: Headers) -> PenstockError | None:
        if self._settings.token:
            if path in OPEN_PATHS or has_token(headers, self._settings.token):
                return None
            return error(
                "unauthorized",
                detail="the token is missing or wrong",
                hint="send the header Authorization: Bearer <token>",
            )
        host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        if not is_loopback(host) and host != self._settings.host:
            return error("unauthorized", detail=f'this server does not answer for the host "{host}"')
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return error("unauthorized", detail=f'pages of "{origin}" may not call this server')
        return None
