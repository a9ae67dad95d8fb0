"""The application: resources, guards and errors around one database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from penstock import __version__
from penstock.server.http.access import USER_HEADER, AccessGuard, Sessions, listed_origins, rates_of
from penstock.server.http.body_limits import ByteBudget
from penstock.server.http.context import Context, Lifecycle, require_role
from penstock.server.http.errors import ErrorBoundary, add_handlers
from penstock.server.http.listener import check_proxies, check_token
from penstock.server.http.middleware import HEADER, RequestCounters, RequestFrame
from penstock.server.http.thread_pools import Workers
from penstock.server.models import document
from penstock.server.routes import events, influx, queries, readings, session, statements, system
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.database.database import Database

ROUTERS = (
    *(statements.router, readings.router, events.router, queries.router, queries.tables),
    *(system.router, influx.router, session.router, session.pages),
)


class Api(FastAPI):
    """FastAPI with our document."""

    def openapi(self) -> dict[str, Any]:
        return document(self)


def create_app(database: Database, settings: Settings, lifecycle: Lifecycle | None = None) -> FastAPI:
    """The API over a database that is started, or that `lifecycle` says is still starting."""
    app = Api(
        title="Penstock",
        version=__version__,
        description="A stream database for sensors.",
        dependencies=[Depends(require_role)],
        default_response_class=Response,
        # Their pages load scripts from the internet; /openapi.json says the same.
        docs_url=None,
        redoc_url=None,
    )
    check_token(settings)
    check_proxies(settings)
    database.users.trust(settings.token)
    sessions = Sessions(database.users, settings)
    counters = RequestCounters()
    rates = rates_of(settings)
    app.state.context = Context(
        database=database,
        settings=settings,
        workers=Workers(settings.statements_max, settings.statements_per_user),
        budget=ByteBudget(max(settings.queue_max_bytes, settings.body_max_bytes)),
        lifecycle=lifecycle or Lifecycle(),
        counters=counters,
        sessions=sessions,
        rates=rates,
    )
    for router in ROUTERS:
        app.include_router(router)
    add_handlers(app)
    # The last one added is the outermost.
    app.add_middleware(AccessGuard, settings=settings, users=database.users, sessions=sessions, rates=rates)
    app.add_middleware(ErrorBoundary)
    _open_to_origins(app, settings)
    app.add_middleware(RequestFrame, counters=counters)
    return app


def _open_to_origins(app: FastAPI, settings: Settings) -> None:
    """Pages of the origins that the setting names may call the API, with a token and never with the cookie."""
    origins = listed_origins(settings)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(origins),
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", USER_HEADER, HEADER],
            expose_headers=[HEADER],
        )
