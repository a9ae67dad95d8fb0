"""GET / and, until the console is there, everything below /console: a person's way in."""

from __future__ import annotations

from html import escape

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from penstock.server.http.context import Context

CONSOLE = "/console"
router = APIRouter(include_in_schema=False)

_WAITING = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Penstock</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="1"><link rel="icon" href="data:,"></head>
<body style="font:16px/1.5 system-ui,sans-serif;display:grid;place-items:center;min-height:90vh;margin:0">
<p>Penstock: {reason} &hellip;</p></body></html>"""


@router.get("/")
async def front(_: Request) -> Response:
    return RedirectResponse(f"{CONSOLE}/")


@router.get(CONSOLE)
@router.get(CONSOLE + "/{rest:path}")
async def wait(request: Request) -> Response:
    """The page until the console is ready, which is after the database: it shows the progress of the start, then the console."""
    context: Context = request.app.state.context
    reason = "opening the console" if context.lifecycle.ready else context.lifecycle.reason
    return HTMLResponse(_WAITING.format(reason=escape(reason)), 503, {"Retry-After": "1"})
