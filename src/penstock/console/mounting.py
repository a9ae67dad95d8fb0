"""NiceGUI below /console of the server's application, and the one console of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from nicegui import app as pages
from nicegui import ui
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.console.page import Console, set_console
from penstock.console.pages import ask, load, overview, queries, sensors, system, table
from penstock.errors import error
from penstock.server.http.access import refuse
from penstock.server.http.body_limits import CONSOLE_MAX_BYTES, limited_body
from penstock.server.http.connections import allow_frames
from penstock.server.http.context import Context
from penstock.server.routes.session import CONSOLE

PAGES: dict[str, Callable[..., Any]] = {
    "/": overview.show,
    "/sensors": sensors.show,
    "/sensors/{name:path}": table.show,
    "/ask": ask.show,
    "/queries": queries.show_all,
    "/queries/{name:path}": queries.show_one,
    "/load": load.show,
    "/system": system.show,
}
# A page that comes late is better than none: behind a cycle that compiles its kernels it may.
RESPONSE_S = 60.0
_FOLDER = Path(__file__).parent
# A laptop that was closed for a moment, or a phone in the lift, goes on where it was.
RECONNECT_S = 15.0


@dataclass(frozen=True)
class _Pages:
    """NiceGUI with the server's limits on what browsers send.

    A browser that leaves while a page is made is no error of ours; Starlette's middleware thinks that it is.
    """

    app: ASGIApp
    context: Context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.context.users.required and scope["penstock.caller"].session is None:
            # What a page may do is looked up by its session; a token has none.
            hint = "sign in at /sign-in"
            await refuse(error("unauthorized", detail="the console needs a session", hint=hint), scope, receive, send)
            return
        if scope["type"] == "websocket":
            allow_frames(scope, CONSOLE_MAX_BYTES, self.context.budget)
        else:
            receive = limited_body(receive, CONSOLE_MAX_BYTES)
        try:
            await self.app(scope, receive, send)
        except RuntimeError as failure:
            if str(failure) != "No response returned.":
                raise


@asynccontextmanager
async def mounted(app: FastAPI) -> AsyncIterator[None]:
    context: Context = app.state.context
    for path, show in PAGES.items():
        ui.page(path, response_timeout=RESPONSE_S)(show)
    pages.add_static_files("/assets", str(_FOLDER / "assets"))
    ui.run_with(
        app,
        title="Penstock",
        favicon=_FOLDER / "assets" / "favicon.svg",
        dark=None,
        language="en-US",
        binding_refresh_interval=None,
        reconnect_timeout=RECONNECT_S,
        message_history_length=100,
        mount_path=CONSOLE,
        tailwind=False,
        show_welcome_message=False,
    )
    # The page that waits for us is registered already and would win.
    app.router.routes.pop()
    app.router.routes.insert(0, Mount(CONSOLE, app=_Pages(pages, context)))
    # Uvicorn runs without lifespan events here: the database has its own beginning and end. NiceGUI begins with its own
    # lifespan, not with the one that run_with wraps around ours: that looks for Uvicorn among all objects there are
    # (gc.get_objects), and a tuple that another thread is making at that moment cannot be finished: SystemError.
    async with pages.router.lifespan_context(pages):
        console = Console(context)
        set_console(console)
        try:
            yield
        finally:
            set_console(None)
            console.close()
