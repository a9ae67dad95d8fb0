"""NiceGUI below /console of the server's application, and the one console of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from nicegui import app as pages
from nicegui import ui

from penstock.console import ask, overview, queries, query, sensors, system, table
from penstock.console.acting import Console, set_console
from penstock.server.context import Context
from penstock.server.front import CONSOLE

PAGES = (overview, sensors, table, ask, queries, query, system)
_FOLDER = Path(__file__).parent
# A laptop that was closed for a moment, or a phone in the lift, goes on where it was.
RECONNECT_S = 15.0


@asynccontextmanager
async def mounted(app: FastAPI) -> AsyncIterator[None]:
    context: Context = app.state.context
    for page in PAGES:
        page.register()
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
    app.router.routes.insert(0, app.router.routes.pop())
    # Uvicorn runs without lifespan events here: the database has its own beginning and end.
    async with app.router.lifespan_context(app):
        console = Console(context)
        set_console(console)
        try:
            yield
        finally:
            set_console(None)
            console.close()
