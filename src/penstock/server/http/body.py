"""Reading a request's body: bounded (`body_limits`), without buffering what will be refused anyway."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from penstock.errors import error
from penstock.server.http.body_limits import (
    STATEMENT_MAX_BYTES,
    UNKNOWN_ROLE_MAX_BYTES,
    UNKNOWN_ROLE_S,
    Body,
    BudgetShare,
    too_large,
)
from penstock.server.http.context import Context
from penstock.server.http.decode import json_size
from penstock.server.http.errors import first_mistake

M = TypeVar("M", bound=BaseModel)

# A sender that stops in mid-body would hold its share of the budget for ever.
SILENCE_S = 30.0
# A larger JSON document is parsed by a thread.
PARSED_AT_ONCE_BYTES = 64 << 10


def media_type_of(request: Request) -> str:
    """The content type without parameters; bodies in another encoding are refused."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        hint = "send the body without Content-Encoding"
        raise error("unsupported_media_type", media_type=f"{encoding}-encoded", hint=hint)
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


@asynccontextmanager
async def read_body(
    request: Request, context: Context, limit: int | None = None
) -> AsyncIterator[tuple[Body, BudgetShare]]:
    """The whole body and the share of the budget that it holds while the block runs.

    A declared length above the limit is refused before a byte is read; the server then discards what still
    comes, so that a sender that reads late finds the answer and may use the connection again.
    """
    limit = context.settings.body_max_bytes if limit is None else min(limit, context.settings.body_max_bytes)
    with context.budget.share() as share:
        yield await _collect(request, limit, share), share


async def read_small_body(request: Request) -> Body:
    """A body that is read before the role is known, or that has to be small: outside the budget, with a deadline."""
    try:
        async with asyncio.timeout(UNKNOWN_ROLE_S):
            return await _collect(request, UNKNOWN_ROLE_MAX_BYTES, None)
    except TimeoutError:
        raise error("invalid_body", detail=f"the body did not end within {UNKNOWN_ROLE_S:g} seconds") from None


async def _collect(request: Request, limit: int, share: BudgetShare | None) -> Body:
    declared = request.headers.get("content-length")
    if declared is not None and int(declared) > limit:
        raise too_large(limit)
    first, rest, size = b"", bytearray(), 0
    stream = request.stream()
    try:
        while True:
            async with asyncio.timeout(SILENCE_S):
                chunk = await anext(stream, None)
            if chunk is None:
                return rest or first
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            if share is not None and chunk:
                await share.take(len(chunk))
            # Most bodies come in one piece, which is not copied. Many small pieces would take more room than their bytes.
            if first and chunk and not rest:
                rest += first
            if rest:
                rest += chunk
            elif chunk:
                first = chunk
    except TimeoutError:
        raise error("invalid_body", detail=f"no byte of the body came for {SILENCE_S:.0f} seconds") from None
    except ClientDisconnect:
        raise error("invalid_body", detail="the sender left before the end of the body") from None


async def read_model(request: Request, context: Context, model: type[M]) -> M:
    """A JSON body as a model. Only as application/json: a browser asks before it sends that to another site.

    `request.state.model_bytes` is what the model takes at most: the budget of bodies counts it only while it is read.
    """
    _check_json(request)
    async with read_body(request, context, STATEMENT_MAX_BYTES) as (body, _):
        request.state.model_bytes = json_size(body)
        if len(body) <= PARSED_AT_ONCE_BYTES:
            return _parsed(model, body)
        return await context.workers.decode.run(_parsed, model, body)


async def read_small_model(request: Request, model: type[M]) -> M:
    """The same within the limits of a request before its role is known."""
    _check_json(request)
    return _parsed(model, await read_small_body(request))


def _check_json(request: Request) -> None:
    media_type = media_type_of(request)
    if media_type != "application/json":
        raise error("unsupported_media_type", media_type=media_type, hint="send Content-Type: application/json")


def _parsed(model: type[M], body: Body) -> M:
    try:
        return model.model_validate_json(body)
    except ValidationError as problem:
        mistakes = problem.errors(include_url=False, include_input=False)
        raise error("invalid_body", detail=first_mistake(mistakes)) from None


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
