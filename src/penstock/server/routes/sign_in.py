"""GET /sign-in: the one page that needs no sign-in. It loads nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from penstock.server.http.access import SIGN_IN
from penstock.server.http.roles import needs

router = APIRouter(include_in_schema=False)


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
