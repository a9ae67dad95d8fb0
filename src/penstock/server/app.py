"""The server: the application around one database, and `penstock serve`, which runs it until Ctrl-C or SIGTERM and stops cleanly.

The port is bound first, so that a second server fails before it starts Spark, and the API answers "not ready"
with the reason while the database starts in a thread of its own. Signals only set flags: on the way out live
streams end, running requests get a few seconds, then the database stops.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from penstock import __version__
from penstock.errors import PenstockError
from penstock.garbage import set_long_lived_objects_aside
from penstock.logs import check_logging, set_up_logging
from penstock.server.http.access import BURST_S, USER_HEADER, AccessGuard, RateLimits, Sessions, listed_origins
from penstock.server.http.body_limits import ByteBudget
from penstock.server.http.connections import HttpConnection, SocketConnection
from penstock.server.http.context import Context, Lifecycle, require_role
from penstock.server.http.errors import ErrorBoundary, add_handlers
from penstock.server.http.listener import check_proxies, check_token, is_loopback, listen, proxies_of
from penstock.server.http.middleware import HEADER, RequestCounters, RequestFrame
from penstock.server.http.thread_pools import MINING_BURST_S, ProcessorShare, Workers
from penstock.server.routes import events, influx, queries, readings, session, statements, system
from penstock.settings import Settings
from penstock.streams.log.release_memory import share_free_memory

if TYPE_CHECKING:
    from penstock.database.database import Database


ROUTERS = (
    *(statements.router, readings.router, events.router, queries.router, queries.tables),
    *(system.router, influx.router, session.router, session.pages),
)


class Api(FastAPI):
    """FastAPI with a document that has no 422 of its own: a wrong parameter is a 400 with our body."""

    def openapi(self) -> dict[str, Any]:
        found = super().openapi()
        for methods in found["paths"].values():
            for call in methods.values():
                call["responses"].pop("422", None)
        found["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "of CREATE TOKEN, or the setting `token`"}
        }
        found["security"] = [{"token": []}, {}]
        for name in ("HTTPValidationError", "ValidationError"):
            found["components"]["schemas"].pop(name, None)
        return found


def create_app(
    database: Database,
    settings: Settings,
    lifecycle: Lifecycle | None = None,
    rates: RateLimits | None = None,
    sessions: Sessions | None = None,
) -> FastAPI:
    """The API over a database that is started, or that `lifecycle` says is still starting.

    Without `rates`, the settings say how many requests a client may send.
    """
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
    app.state.context = context = Context(
        database=database,
        settings=settings,
        workers=Workers(settings.statements_max, settings.statements_per_user),
        budget=ByteBudget(max(settings.queue_max_bytes, settings.body_max_bytes)),
        lifecycle=lifecycle or Lifecycle(),
        counters=RequestCounters(),
        sessions=sessions or Sessions(database.users, settings),
        rates=rates or RateLimits(settings.requests_per_s, settings.requests_per_s * BURST_S),
        pace={
            "aggregates": ProcessorShare(settings.subscribers_budget),
            "mining": ProcessorShare(settings.mining_budget, burst_s=MINING_BURST_S),
            "selections": ProcessorShare(settings.selections_budget),
        },
    )
    for router in ROUTERS:
        app.include_router(router)
    add_handlers(app)
    # The last one added is the outermost.
    app.add_middleware(AccessGuard, settings=settings, sessions=context.sessions, rates=context.rates)
    app.add_middleware(ErrorBoundary)
    _open_to_origins(app, settings)
    app.add_middleware(RequestFrame, counters=context.counters)
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


Progress = Callable[[str], None]
OpenPages = Callable[[FastAPI], AbstractAsyncContextManager[None]]

GRACE_S = 5
# A closed terminal is a wish to stop, too.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(
    settings: Settings,
    progress: Progress | None = None,
    database: Database | None = None,
    listener: socket.socket | None = None,
    prepare: Callable[[Progress], None] = lambda _: None,
    pages: OpenPages = lambda _: nullcontext(),
) -> int:
    """Serve until told to stop; the process's exit code. `database` is the real one unless a test brings its own.

    `prepare` runs before it starts; meanwhile the API says what it is at. `pages` adds the console once it is ready.
    """
    progress = progress or _print_progress
    share_free_memory()
    set_long_lived_objects_aside()
    # A thread that answers a reader gives the interpreter to the cycle's callback sooner than after Python's 5 ms.
    sys.setswitchinterval(0.0005)
    try:
        with listener or listen(settings) as listener:
            check_logging(settings.log_level, settings.log_format)
            set_up_logging(settings.log_level, settings.log_format)
            if not is_loopback(settings.host) and not settings.tls_key:
                progress("without tls_certificate and tls_key, passwords and tokens cross the network in the clear")
            if database is None:
                # Spark's libraries load here and not for --help.
                from penstock.database.database import Database

                database = Database(settings)
            return asyncio.run(_serve(settings, listener, database, progress, prepare, pages))
    except PenstockError as problem:
        print(problem.render(), file=sys.stderr)
        return 1


class Server(uvicorn.Server):
    """Uvicorn with our signals: a first one ends it gently, a second one without waiting for requests."""

    def __init__(self, config: uvicorn.Config, lifecycle: Lifecycle) -> None:
        super().__init__(config)
        self._lifecycle = lifecycle

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Uvicorn would raise the signal again afterwards, and the process would end before the database did.
        yield

    def ask_to_stop(self) -> None:
        """Called on the event loop."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._lifecycle.closing.set()


class _StopAsked(Exception):
    """A signal to stop came before everything was prepared."""


async def _serve(
    settings: Settings,
    listener: socket.socket,
    database: Database,
    progress: Progress,
    prepare: Callable[[Progress], None],
    pages: OpenPages,
) -> int:
    began = time.monotonic()
    lifecycle = Lifecycle(ready=False, reason="starting")
    app = create_app(database, settings, lifecycle)
    server = Server(configured(app, settings), lifecycle)
    with _signals(asyncio.get_running_loop(), server):
        serving = asyncio.create_task(server.serve([listener]))

        def report(step: str) -> None:
            lifecycle.reason = step
            progress(step)

        def report_or_leave(step: str) -> None:
            report(step)
            if server.should_exit:
                raise _StopAsked

        try:
            await asyncio.to_thread(prepare, report_or_leave)
            if not server.should_exit:
                await asyncio.to_thread(database.start, report)
            if not server.should_exit:
                lifecycle.ready, lifecycle.reason = True, "ready"
                progress(f"ready at {url_of(listener, bool(settings.tls_key))} in {time.monotonic() - began:.1f} s")
                async with pages(app):
                    await serving
            await serving
        except _StopAsked:
            pass
        finally:
            server.ask_to_stop()
            lifecycle.ready, lifecycle.reason = False, "stopping"
            progress("stopping")
            await asyncio.gather(serving, return_exceptions=True)
            await asyncio.to_thread(database.stop)
            context: Context = app.state.context
            context.workers.close()
            context.sessions.close()
    progress("stopped")
    return 0


def configured(app: FastAPI, settings: Settings, grace_s: int = GRACE_S) -> uvicorn.Config:
    """Uvicorn as we run it."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=grace_s,
        server_header=False,
        # Without proxies that are named, what a client says about itself does not count, not even on loopback.
        proxy_headers=bool(proxies_of(settings)),
        forwarded_allow_ips=proxies_of(settings),
        ssl_certfile=settings.tls_certificate or None,
        ssl_keyfile=settings.tls_key or None,
        http=HttpConnection,
        ws=SocketConnection,
        # Unpacking would block the event loop, and a frame that unpacks cannot be counted before it is read.
        ws_per_message_deflate=False,
    )


def url_of(listener: socket.socket, tls: bool = False) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@contextmanager
def _signals(loop: asyncio.AbstractEventLoop, server: Server) -> Iterator[None]:
    """Ours from the first second on: Ctrl-C while Spark starts must stop Spark too."""
    for number in SIGNALS:
        loop.add_signal_handler(number, server.ask_to_stop)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def _print_progress(step: str) -> None:
    try:
        print(f"penstock: {step}", file=sys.stderr, flush=True)
    except OSError:
        # The reader of our progress is gone; the data is not, and the server goes on.
        return
