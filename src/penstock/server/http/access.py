"""The caller of a request: a token, a session of the page, or a program on this machine where sign-in is not required.

A session is a random name in a cookie, and behind it a user or a token, in memory only: a restart of the server ends all of them.
What a session may do is looked up at each request, so that a dropped user, a new password or a lower role counts at once.
The browser sends the cookie by itself, so a change that comes with one must come from our own page.

Three things look like a program on this machine and are not: a proxy that forwards for others, a web page with a name that was
rebound to loopback (`Host`), and a web page of another origin in a browser on this machine (`Origin`, `Sec-Fetch-Site`).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.cache import Cache
from penstock.clock import SECOND, Clock
from penstock.errors import PenstockError, error
from penstock.security.caller import ANONYMOUS, Caller, acting_as
from penstock.security.guesses import FREE_GUESSES_OF_ADDRESS, Guesses, address_key, too_many_guesses, user_key
from penstock.security.users import Users, as_caller, token_digest
from penstock.server.http.body_limits import limited_body
from penstock.server.http.errors import error_response
from penstock.server.http.listener import is_loopback
from penstock.server.http.thread_pools import Pool
from penstock.settings import Settings

# Probes of a load balancer carry no token; what they see without one is only ready or not.
OPEN_PATHS = frozenset({"/v1/health", "/v1/session", "/sign-in"})
SIGN_IN = "/sign-in"
USER_HEADER = "Penstock-User"
# Of RFC 6455. A WebSocket that is closed before it was accepted reaches the caller as 403.
GOING_AWAY, POLICY_VIOLATION = 1001, 1008
# InfluxDB's clients, Telegraf among them, write Token where others write Bearer.
_SCHEMES = frozenset({"bearer", "token"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
BURST_S = 2.0


class AccessGuard:
    """Finds the caller of a request, or refuses it, before any handler sees it."""

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions, rates: RateLimits) -> None:
        self._app = app
        self._settings = settings
        self._users = sessions.users
        self._sessions = sessions
        self._rates = rates
        self._origins = listed_origins(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        client = scope.get("client")
        address = client[0] if client else None
        try:
            caller = self._identify(scope, headers, address)
            wait_s = self._rates.take(client_name(caller))
            if wait_s > 0:
                raise _too_often(wait_s)
        except PenstockError as problem:
            if problem.condition == "unauthorized" and (wait_s := self._rates.take(f"address {address}")) > 0:
                problem = _too_often(wait_s)
            if self._is_for_sign_in(problem, scope, headers):
                await RedirectResponse(f"{SIGN_IN}?next={quote(scope['path'])}", 303)(scope, receive, send)
            else:
                await refuse(problem, scope, receive, send)
            return
        scope["penstock.caller"] = caller
        if caller.role is None:
            receive = limited_body(receive)
        with acting_as(caller):
            await self._app(scope, receive, send)

    def _is_for_sign_in(self, problem: PenstockError, scope: Scope, headers: Headers) -> bool:
        """Whether a person opened a page without having signed in."""
        is_person = scope.get("method") == "GET" and "text/html" in headers.get("accept", "")
        return is_person and problem.condition == "unauthorized" and self._users.required

    def _identify(self, scope: Scope, headers: Headers, address: str | None) -> Caller:
        if not self._users.required:
            check_local(self._settings, self._origins, headers, scope.get("method", "CONNECT"), address)
            return Caller(headers.get(USER_HEADER, "").strip() or "local", "admin", via="open", address=address)
        if "authorization" in headers:
            scheme, _, given = headers["authorization"].partition(" ")
            caller = self._sessions.by_token(given.strip(), address) if scheme.lower() in _SCHEMES else None
        else:
            caller = self._by_cookie(scope, headers)
        if caller is None and scope["path"] in OPEN_PATHS:
            caller = ANONYMOUS
        if caller is not None:
            return replace(caller, address=address)
        hint = "send the header Authorization: Bearer <token>, or sign in at /sign-in"
        raise error("unauthorized", detail="the token is missing or wrong", hint=hint)

    def _by_cookie(self, scope: Scope, headers: Headers) -> Caller | None:
        name = session_cookie(headers, self._sessions.cookie)
        caller = self._sessions.find(name) if name else None
        if caller is None:
            return None
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        origin = headers.get("origin")
        ours = headers.get("sec-fetch-site") == "same-origin" if origin is None else is_same_origin(origin, headers)
        if not ours and (changes or origin is not None):
            raise error("forbidden", detail="a session's cookie only counts on the server's own pages")
        return caller


def client_name(caller: Caller) -> str:
    """The name under which requests are counted together: of one user or token, or of one address."""
    return caller.credential or f"address {caller.address}"


def listed_origins(settings: Settings) -> frozenset[str]:
    return frozenset(origin.strip().rstrip("/") for origin in settings.cors_origins.split(",") if origin.strip())


def session_cookie(headers: Headers, name: str) -> str | None:
    return cookie_parser(headers.get("cookie", "")).get(name)


async def refuse(problem: PenstockError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request, or close a WebSocket before it opens."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": problem.condition})
    else:
        await error_response(problem)(scope, receive, send)


def _too_often(wait_s: float) -> PenstockError:
    hint = f"wait {max(wait_s, 0.1):.1f} seconds, send more at a time, or raise requests_per_s"
    return error("rate_limited", detail="too many requests", hint=hint)


# Beyond so many the one that has been silent longest is forgotten; by then its bucket is mostly full again.
CLIENTS_MAX = 10_000


class RateLimits:
    """Buckets of `burst` tokens that fill with `per_s`; 0 lets everything pass. Used by the event loop only."""

    def __init__(self, per_s: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = max(burst, 1.0)
        self._now = now
        self._buckets: Cache[str, tuple[float, float]] = Cache(most=CLIENTS_MAX)

    def take(self, client: str) -> float:
        """0 if the client may go on now, else how many seconds it should wait."""
        if self._per_s <= 0:
            return 0.0
        now = self._now()
        left, at = self._buckets.get(client) or (self._burst, now)
        left = min(self._burst, left + (now - at) * self._per_s)
        passes = left >= 1.0
        self._buckets.put(client, (left - 1.0 if passes else left, now))
        return 0.0 if passes else (1.0 - left) / self._per_s


# What proxies add for the server behind them. Each says that the peer is not the client.
_FORWARDING = frozenset(
    "forwarded via x-real-ip x-client-ip x-cluster-client-ip x-originating-ip x-original-forwarded-for x-original-host "
    "x-envoy-external-address true-client-ip cf-connecting-ip fastly-client-ip".split()
)
_ADD_USER = "on the server's machine: penstock user add NAME --role admin"
_FOREIGN_SITES = frozenset({"cross-site", "same-site"})


def forwarding_header(headers: Headers) -> str | None:
    """The first header that a proxy has added; None where the peer is the client."""
    for name in headers.keys():  # noqa: SIM118 its own iterator has no type
        if name in _FORWARDING or name.startswith("x-forwarded"):
            return name
    return None


def is_local_client(headers: Headers, peer: str | None) -> bool:
    """Whether a request comes from a program on this machine, and not from a proxy on it."""
    return peer is not None and is_loopback(peer) and forwarding_header(headers) is None


def check_local(settings: Settings, origins: frozenset[str], headers: Headers, method: str, peer: str | None) -> None:
    """Refuse what is not a program on this machine, or a page of this server or of the origins that are named."""
    if not is_loopback(settings.host):
        # The last user of a server that other machines can reach was dropped. It does not open by that.
        raise error("unauthorized", detail="this server has no users any more", hint=_ADD_USER)
    if not is_local_client(headers, peer):
        name = forwarding_header(headers)
        what = f'requests with the header "{name}" come through a proxy' if name else f"{peer} is another machine"
        raise error("unauthorized", detail=f"{what}, and this server has no users", hint=_ADD_USER)
    host = host_name(headers.get("host", ""))
    if not is_loopback(host):
        raise error("unauthorized", detail=f'this server does not answer for the host "{host}"')
    origin = headers.get("origin")
    if origin is not None:
        if not is_same_origin(origin, headers) and origin not in origins:
            raise error("unauthorized", detail=f'pages of "{origin}" may not call this server')
    elif headers.get("sec-fetch-site") in _FOREIGN_SITES and not _is_link(headers, method):
        raise error("unauthorized", detail="pages of other origins may not load from this server")


def is_same_origin(origin: str, headers: Headers) -> bool:
    """Whether a page's origin is the host that it calls."""
    try:
        return urlsplit(origin).netloc == headers.get("host")
    except ValueError:
        return False


def host_name(host: str) -> str:
    """The name in a Host header without its port; empty where it has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_link(headers: Headers, method: str) -> bool:
    """A person follows a link to the server: the page that has the link sees nothing of the answer."""
    return (
        method == "GET"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest", "document") == "document"
    )


SESSIONS_MAX = 10_000
_THREADS = 2
_WAITING_MAX = 20


class Sessions:
    """Used by the event loop only; hashing runs in two threads of its own."""

    def __init__(self, users: Users, settings: Settings, clock: Clock | None = None) -> None:
        self.users = users
        self.guesses = Guesses()
        self._clock = clock or users.clock
        self.lifetime_s = settings.session_hours * 3600
        # Browsers keep one cookie per name for all ports of a host; two servers must not sign each other out.
        self.cookie = f"penstock_session_{settings.port}"
        self._found: Cache[str, tuple[Caller, int]] = Cache(most=SESSIONS_MAX)
        self._pool = Pool("sign-in", _THREADS, _WAITING_MAX)

    async def sign_in(self, user: str | None, password: str, address: str | None) -> Caller:
        """The caller with this password, or unauthorized. Without a user the password is a token."""
        caller = self.by_token(password, address) if user is None else await self._by_password(user, password, address)
        if caller is None:
            raise error("unauthorized", detail="no user has this name and password, or there is no such token")
        return replace(caller, via="session", address=address)

    def by_token(self, token: str, address: str | None) -> Caller | None:
        """The caller that has this token, or None. Wrong ones are guesses."""
        digest = token_digest(token)
        self.guesses.begin_token(address, digest)
        caller = self.users.by_digest(digest)
        self.guesses.end_token(address, digest, caller is not None)
        return caller

    async def _by_password(self, user: str, password: str, address: str | None) -> Caller | None:
        mine, shared = user_key(user, address), address_key(address)
        wait_s = self.guesses.begin(mine) or self.guesses.begin(shared, FREE_GUESSES_OF_ADDRESS)
        if wait_s > 0:
            raise too_many_guesses(wait_s)
        found = await self._pool.run(self.users.by_password, user, password)
        if found is None:
            return None
        self.guesses.forget(mine)
        self.guesses.undo(shared)
        return as_caller(found)

    def begin(self, caller: Caller) -> str:
        """The secret name of a new session."""
        name = secrets.token_urlsafe(32)
        key = token_digest(name)
        self._found.put(key, (replace(caller, session=key), self._clock.now_us() + self.lifetime_s * SECOND))
        return name

    def ends_us(self, name: str) -> int | None:
        """When a session will end; None if there is none."""
        found = self._found.get(token_digest(name))
        return None if found is None else found[1]

    def find(self, name: str) -> Caller | None:
        """The caller of a session, with its present role; None if the session ended or its user may not sign in any more."""
        key = token_digest(name)
        found = self._found.get(key)
        if found is None:
            return None
        caller, ends_us = found
        now = self.users.still(caller) if ends_us > self._clock.now_us() else None
        if now is None:
            self._found.remove(key)
        return now

    def check(self, caller: Caller) -> None:
        """Refuse a caller with a session that has ended since: a stream may be open for days."""
        if caller.session is None:
            return
        found = self._found.get(caller.session)
        if found is None or found[1] <= self._clock.now_us():
            raise error("unauthorized", detail="the session has ended", hint="sign in again")

    def end(self, name: str) -> None:
        self._found.remove(token_digest(name))

    def close(self) -> None:
        self._pool.close()
