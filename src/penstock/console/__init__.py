"""The console: pages in a browser, made in the server's process (docs/decisions/0013-console.md).

`open_console` adds them to the server's application once the database is ready. One file per subject; `page` frames
them and runs what they ask for off the event loop, `server_status` gathers what they show, once for all open pages.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI

_log = logging.getLogger("penstock.console")


@asynccontextmanager
async def open_console(app: FastAPI) -> AsyncIterator[None]:
    """The console below /console for as long as this is open. Without it the API goes on: its trouble is only logged."""
    async with AsyncExitStack() as open_parts:
        try:
            # Half a second of imports that "ready" does not wait for.
            mounting = await asyncio.to_thread(importlib.import_module, "penstock.console.mounting")
            await open_parts.enter_async_context(mounting.mounted(app))
        except Exception:
            _log.exception("the console could not be opened")
        yield
