"""Bodies as they were sent or as gzip packed them, within the same limits."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request

from penstock.errors import error
from penstock.server.http.body import read_body
from penstock.server.http.body_limits import Body
from penstock.server.http.context import Context

_GZIP = 16 + zlib.MAX_WBITS
_LEAST = 18  # bytes of a gzip header and trailer


@asynccontextmanager
async def read_unpacked(request: Request, context: Context) -> AsyncIterator[Body]:
    """The body without its Content-Encoding, counted against the server's budget at its full size."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise error("unsupported_media_type", media_type=f"{encoding}-encoded", hint="gzip is understood, or none")
    async with read_body(request, context) as (body, share):
        if encoding != "identity":
            size = _declared_size(body, context.settings.body_max_bytes)
            await share.take(size)
            body = await context.workers.decode.run(unpack, body, size)
        yield body


def _declared_size(packed: Body, limit: int) -> int:
    """How many bytes the packed ones stand for, as their last four say. `unpack` never makes more than that."""
    if len(packed) < _LEAST:
        raise error("invalid_body", detail="not gzip: the body is too short")
    size = int.from_bytes(packed[-4:], "little")
    if size > limit:
        raise error("body_too_large", limit=limit, hint="send it in smaller batches, or raise body_max_bytes")
    return size


def unpack(packed: Body, size: int) -> bytes:
    """Exactly `size` bytes; a body that would unpack to more is refused with no more memory taken."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        body = unpacker.decompress(packed, size + 1)
    except zlib.error as problem:
        raise error("invalid_body", detail=f"not gzip: {problem}") from None
    if len(body) != size or not unpacker.eof or unpacker.unused_data:
        raise error("invalid_body", detail="not gzip: it does not end where it says", hint="send one gzip member")
    return body
