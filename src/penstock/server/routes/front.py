"""A person's way in: GET /sign-in, the one page that needs no sign-in and loads nothing else; GET /; and, until the console is
there, everything below /console.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from penstock.server.http.access import SIGN_IN
from penstock.server.http.context import Context, needs

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


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _inside(page: str, tag: str) -> str:
    return page.split(f"<{tag}>", 1)[1].split(f"</{tag}>", 1)[0]


_PAGE = files("penstock.server").joinpath("sign_in.html").read_text(encoding="utf-8")
# Only the page's own script and style run, by their hashes.
_POLICY = (
    f"default-src 'none'; script-src {_hash(_inside(_PAGE, 'script'))}; style-src {_hash(_inside(_PAGE, 'style'))}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get(SIGN_IN)
@needs(None)
async def sign_in_page() -> Response:
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"})
