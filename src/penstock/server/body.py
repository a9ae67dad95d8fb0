"""Reading a request's body: bounded, without buffering what will be refused anyway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from penstock.errors import PenstockError, error
from penstock.server.context import Context

M = TypeVar("M", bound=BaseModel)

# A sender that stops in mid-body would hold its share of the budget for ever.
SILENCE_S = 30.0


def media_type_of(request: Request) -> str:
    """The content type without parameters; bodies in another encoding are refused."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise error(
            "unsupported_media_type", media_type=f"{encoding}-encoded", hint="send the body without Content-Encoding"
        )
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


@asynccontextmanager
async def read_body(request: Request, context: Context) -> AsyncIterator[bytes]:
    """The whole body, counted against the server's budget while the block runs.

    A declared length above the limit is refused before a byte is read; the server then discards what still
    comes, so that a sender who reads late finds the answer and may use the connection again.
    """
    limit = context.settings.body_max_bytes
    declared = request.headers.get("content-length")
    size = limit if declared is None else int(declared)
    if size > limit:
        raise _too_large(limit)
    async with context.budget.hold(size):
        yield await _collect(request, limit)


async def _collect(request: Request, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    stream = request.stream()
    try:
        while True:
            async with asyncio.timeout(SILENCE_S):
                chunk = await anext(stream, None)
            if chunk is None:
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            if chunk:
                chunks.append(chunk)
    except TimeoutError:
        raise error("invalid_body", detail=f"no byte of the body came for {SILENCE_S:.0f} seconds") from None
    except ClientDisconnect:
        raise error("invalid_body", detail="the sender left before the end of the body") from None


def _too_large(limit: int) -> PenstockError:
    return error("body_too_large", limit=limit, hint="send it in smaller batches, or raise body_max_bytes")


async def read_model(request: Request, context: Context, model: type[M]) -> M:
    """A JSON body as a model. Only as application/json: a browser asks before it sends that to another site."""
    media_type = media_type_of(request)
    if media_type != "application/json":
        raise error("unsupported_media_type", media_type=media_type, hint="send Content-Type: application/json")
    async with read_body(request, context) as body:
        try:
            return model.model_validate_json(body)
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            detail = f"{where}: {first['msg']}" if where else first["msg"]
            raise error("invalid_body", detail=detail) from None
