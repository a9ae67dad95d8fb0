"""How large the body of a request may be, and how long it may take.

| body of | at most | counts against the budget |
| --- | --- | --- |
| a request without a known role | 8 KB, within ten seconds | no |
| a statement or a definition | 4 MB, or `body_max_bytes` if that is less | yes |
| a push | `body_max_bytes` | yes |
| a page of the console | 1 MB | frames of its WebSocket |
"""

from __future__ import annotations

from typing import TypeAlias

from starlette.types import Message, Receive

from penstock.errors import PenstockError, error

Body: TypeAlias = bytes | bytearray
UNKNOWN_ROLE_MAX_BYTES = 8 << 10
UNKNOWN_ROLE_S = 10.0
STATEMENT_MAX_BYTES = 4 << 20
CONSOLE_MAX_BYTES = 1 << 20


def limited_body(receive: Receive, limit: int = UNKNOWN_ROLE_MAX_BYTES) -> Receive:
    """The messages of a request, up to so many bytes: for handlers that are not ours, or that ask for no role."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > limit:
                raise too_large(limit)
        return message

    return limited


def too_large(limit: int) -> PenstockError:
    """The refusal of a body beyond its limit."""
    fixed = limit in (UNKNOWN_ROLE_MAX_BYTES, STATEMENT_MAX_BYTES, CONSOLE_MAX_BYTES)
    hint = "send it in parts" if fixed else "send it in smaller batches, or raise body_max_bytes"
    return error("body_too_large", limit=limit, hint=hint)
