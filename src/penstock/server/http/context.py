"""What every request handler needs, carried by the application's state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import Request

from penstock.errors import error
from penstock.security.caller import Caller
from penstock.security.guesses import Guesses
from penstock.security.users import Users
from penstock.server.http.access import USER_HEADER
from penstock.server.http.budget import ByteBudget
from penstock.server.http.counters import RequestCounters
from penstock.server.http.rate_limit import RateLimits
from penstock.server.http.roles import caller_of
from penstock.server.http.sessions import Sessions
from penstock.server.http.thread_pools import Workers
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
            raise error(
                "not_ready", detail=f"the server is not ready: {self.reason}", hint="try again in a few seconds"
            )


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
    guesses: Guesses

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
