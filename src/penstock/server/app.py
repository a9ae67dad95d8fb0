"""The application: resources, guards and errors around one database."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from penstock import __version__
from penstock.server import backup, events, health, influx, metrics, queries, readings, sql, tables
from penstock.server.access import AccessGuard
from penstock.server.backend import Backend
from penstock.server.context import Context, Lifecycle
from penstock.server.counters import Counters, CountRequests
from penstock.server.errors import ErrorBoundary, add_handlers
from penstock.server.openapi import document
from penstock.server.workers import ByteBudget, Workers
from penstock.settings import Settings

RESOURCES = (sql, readings, events, queries, tables, health, metrics, backup, influx)


class Api(FastAPI):
    """FastAPI with our document."""

    def openapi(self) -> dict[str, Any]:
        return document(self)


def create_app(database: Backend, settings: Settings, lifecycle: Lifecycle | None = None) -> FastAPI:
    """The API over a database that is started, or that `lifecycle` says is still starting."""
    app = Api(title="Penstock", version=__version__, description="A stream database for sensors.")
    counters = Counters()
    app.state.context = Context(
        database=database,
        settings=settings,
        workers=Workers(),
        budget=ByteBudget(max(settings.queue_max_bytes, settings.body_max_bytes)),
        lifecycle=lifecycle or Lifecycle(),
        counters=counters,
    )
    for resource in RESOURCES:
        app.include_router(resource.router)
    add_handlers(app)
    # The last one added is the outermost.
    app.add_middleware(AccessGuard, settings=settings)
    app.add_middleware(ErrorBoundary)
    app.add_middleware(CountRequests, counters=counters)
    return app
