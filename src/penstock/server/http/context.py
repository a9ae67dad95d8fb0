"""What every request handler needs, carried by the application's state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import HTTPConnection, Request
from starlette.types import Receive

from penstock.errors import error
from penstock.operators.base.view import Budget
from penstock.security.caller import ANONYMOUS, Caller, Role, require
from penstock.security.users import Users
from penstock.server.http.access import SAFE_METHODS, USER_HEADER, RateLimits, Sessions
from penstock.server.http.body_limits import ByteBudget
from penstock.server.http.middleware import RequestCounters
from penstock.server.http.thread_pools import ProcessorShare, Workers
from penstock.settings import Settings
from penstock.statements.permissions import the_caller

if TYPE_CHECKING:
    from penstock.database.database import Database


@dataclass(slots=True)
class Lifecycle:
    """Whether the database behind the API is there yet, or still. `closing` ends the live streams."""

    ready: bool = True
    reason: str = "ready"
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    def require_ready(self) -> None:
        if not self.ready:
            detail = f"the server is not ready: {self.reason}"
            raise error("not_ready", detail=detail, hint="try again in a few seconds")


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of one running server."""

    database: Database
    settings: Settings
    workers: Workers
    budget: ByteBudget
    lifecycle: Lifecycle
    counters: RequestCounters
    sessions: Sessions
    rates: RateLimits
    pace: Mapping[Budget, ProcessorShare]  # of subscribers that may wait

    @property
    def users(self) -> Users:
        return self.database.users

    def caller(self) -> Caller:
        """The caller of the request, with its present role; unauthorized once its token, its user or its session is gone."""
        caller = the_caller(self.users)
        self.sessions.check(caller)
        return caller


def user_of(request: Request) -> str | None:
    """The owner of the queries that this request registers. Without sign-in, the owner that the request names."""
    caller = caller_of(request)
    if caller.via in ("open", "setting"):
        return request.headers.get(USER_HEADER, "").strip() or None
    return caller.name


def context_of(request: Request) -> Context:
    """The context of the application that got this request, once it is ready to answer."""
    context: Context = request.app.state.context
    context.lifecycle.require_ready()
    return context


async def until_gone(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass


F = TypeVar("F", bound=Callable[..., Any])
_ATTRIBUTE = "penstock_role"


def needs(role: Role | None) -> Callable[[F], F]:
    """Set the role that a route needs; stands below the decorator of the route. None: every caller, signed in or not."""

    def mark(handler: F) -> F:
        setattr(handler, _ATTRIBUTE, role)
        return handler

    return mark


def role_of(endpoint: object, method: str) -> Role | None:
    """The role that a handler asks for when it is called with a method."""
    role: Role | None = getattr(endpoint, _ATTRIBUTE, "read" if method in SAFE_METHODS else "write")
    return role


def caller_of(connection: HTTPConnection) -> Caller:
    """The caller of this request, as `access.AccessGuard` found it."""
    found: Caller = connection.scope.get("penstock.caller", ANONYMOUS)
    return found


async def require_role(connection: HTTPConnection) -> None:
    """A dependency of every route: refuses callers with too low a role before anything is read."""
    scope = connection.scope
    method = scope.get("method", "GET")
    need = role_of(scope.get("endpoint"), method)
    require(caller_of(connection), need, f"{method} {getattr(scope.get('route'), 'path', scope['path'])}")
