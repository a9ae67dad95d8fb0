"""A person's way in: the page /sign-in and the sessions behind it (/v1/session), GET /, and what /console shows until the console is there.

The page needs no sign-in and loads nothing else. A session's cookie is out of reach of scripts and other sites.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from penstock.clock import format_timestamp
from penstock.errors import PenstockError, error
from penstock.security.caller import Caller, acting_as
from penstock.server.http.access import SIGN_IN, session_cookie
from penstock.server.http.body import read_small_model
from penstock.server.http.context import Context, caller_of, needs
from penstock.server.http.encode import json_response
from penstock.server.models import ERRORS, SessionReport, SignIn, json_body

router = APIRouter(prefix="/v1/session", tags=["session"], responses=ERRORS)


@router.get("", summary="The own user and role", responses={200: {"model": SessionReport}})
@needs(None)
async def get_session(request: Request) -> Response:
    """Answers without signing in too: then `role` is null. `required` is false where sign-in is not needed."""
    context: Context = request.app.state.context
    name = session_cookie(request.headers, context.sessions.cookie)
    ends_us = context.sessions.ends_us(name) if name is not None else None
    return json_response(_report(context, caller_of(request), ends_us))


@router.post(
    "",
    summary="Sign in",
    responses={200: {"model": SessionReport, "description": "signed in; the cookie says so from now on"}},
    openapi_extra=json_body(SignIn, {"user": "ada", "password": "correct horse"}),
)
@needs(None)
async def sign_in(request: Request) -> Response:
    """By user and password, or by a token. After a few wrong guesses each next one has to wait longer."""
    context: Context = request.app.state.context
    asked = await read_small_model(request, SignIn)
    if not context.users.required:
        raise error("invalid_parameter", detail="this server needs no sign-in", hint="CREATE USER makes it so")
    if (asked.token is None) == (asked.user is None or asked.password is None):
        raise error("invalid_body", detail="give user and password, or a token")
    address = request.client.host if request.client else None
    try:
        caller = await context.sessions.sign_in(asked.user, asked.token or asked.password or "", address)
    except PenstockError as problem:
        # A name that is no user's may be a password in the wrong field.
        known = [asked.user] if asked.user in context.users.accounts().users else []
        context.database.audit.note("SIGN IN", [str(name) for name in known], problem.condition)
        raise
    with acting_as(caller):
        context.database.audit.note("SIGN IN", [caller.name])
    name = context.sessions.begin(caller)
    response = json_response(_report(context, caller, context.sessions.ends_us(name)))
    response.set_cookie(
        context.sessions.cookie,
        name,
        max_age=context.sessions.lifetime_s,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@router.delete("", summary="Sign out", responses={204: {"description": "signed out"}})
@needs(None)
async def sign_out(request: Request) -> Response:
    context: Context = request.app.state.context
    name = session_cookie(request.headers, context.sessions.cookie)
    if name is not None:
        context.sessions.end(name)
        context.database.audit.note("SIGN OUT", [caller_of(request).name])
    response = Response(status_code=204)
    response.delete_cookie(context.sessions.cookie, httponly=True, samesite="strict")
    return response


def _report(context: Context, caller: Caller, ends_us: int | None) -> dict[str, object]:
    signed_in = caller.role is not None
    return {
        "user": caller.name if signed_in and context.users.required else None,
        "role": caller.role,
        "required": context.users.required,
        "expires": format_timestamp(ends_us) if ends_us is not None else None,
    }


CONSOLE = "/console"
pages = APIRouter(include_in_schema=False)

_WAITING = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Penstock</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="1"><link rel="icon" href="data:,"></head>
<body style="font:16px/1.5 system-ui,sans-serif;display:grid;place-items:center;min-height:90vh;margin:0">
<p>Penstock: {reason} &hellip;</p></body></html>"""


@pages.get("/")
async def front(_: Request) -> Response:
    return RedirectResponse(f"{CONSOLE}/")


@pages.get(CONSOLE)
@pages.get(CONSOLE + "/{rest:path}")
async def wait(request: Request) -> Response:
    """The page until the console is ready, which is after the database: it shows the progress of the start, then the console."""
    context: Context = request.app.state.context
    reason = "opening the console" if context.lifecycle.ready else context.lifecycle.reason
    return HTMLResponse(_WAITING.format(reason=escape(reason)), 503, {"Retry-After": "1"})


_PAGE = files("penstock.server").joinpath("sign_in.html").read_text(encoding="utf-8")


def _own(tag: str) -> str:
    """What allows the page's own script or style, by its hash."""
    text = _PAGE.split(f"<{tag}>", 1)[1].split(f"</{tag}>", 1)[0]
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


_POLICY = (
    f"default-src 'none'; script-src {_own('script')}; style-src {_own('style')}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@pages.get(SIGN_IN)
@needs(None)
async def sign_in_page() -> Response:
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"})
