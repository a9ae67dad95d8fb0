"""POST /v1/tables/{table}/readings: acknowledged when on disk.

The same address as a WebSocket: one frame is one push, answered by one message when its readings are on disk. A text frame is
JSON: a reading, an array of them, or `{"id": ..., "readings": [...]}`, where the id makes a repeat harmless as an
Idempotency-Key does. A binary frame is an Arrow stream or, if it begins as one, a Parquet file. Frames are taken one after
another, so their order is the log's; a sender that is faster than the disk, or than `requests_per_s`, waits.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from penstock.errors import PenstockError, error
from penstock.security.caller import require
from penstock.server.http import decode
from penstock.server.http.access import GOING_AWAY, POLICY_VIOLATION, client_name
from penstock.server.http.body import media_type_of, read_body
from penstock.server.http.body_limits import Body, BudgetShare
from penstock.server.http.connections import allow_frames
from penstock.server.http.context import Context, caller_of, context_of, needs
from penstock.server.http.errors import internal_error, log
from penstock.server.models import ERRORS, PushReceipt, readings_body
from penstock.streams.ingest.readings import IngestReceipt

router = APIRouter(prefix="/v1/tables", tags=["readings"])

KEY_MAX_CHARS = 255
T = TypeVar("T")


@router.post(
    "/{table}/readings",
    summary="Push readings",
    responses={200: {"model": PushReceipt, "description": "the accepted ones are on disk"}, **ERRORS},
    openapi_extra={
        **readings_body(),
        "parameters": [
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "maxLength": KEY_MAX_CHARS},
                "description": "a repeat with the same key stores nothing and gets the first receipt",
            }
        ],
    },
)
async def push_readings(table: str, request: Request) -> Response:
    """A reading names its sensor by the table's key column(s), optionally `ts`, and the stream's fields flat."""
    context = context_of(request)
    with counting_refusals(context, "http"):
        media_type = media_type_of(request)
        if media_type not in decode.DECODERS:
            raise error("unsupported_media_type", media_type=media_type, hint="one of " + ", ".join(decode.DECODERS))
        key = request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= KEY_MAX_CHARS:
            raise error("invalid_parameter", detail=f"an Idempotency-Key has 1 to {KEY_MAX_CHARS} characters")

        async with read_body(request, context) as (body, share):

            def work(room: decode.BodyLimits) -> tuple[IngestReceipt, bytes]:
                receipt = context.database.push(table, decode.decode_readings(body, media_type, room), key)
                return receipt, orjson.dumps(receipt)

            receipt, reply = await with_room(context, share, work)
            count_receipt(context, table, "http", receipt, len(body))
    return Response(reply, media_type="application/json")


async def with_room(context: Context, share: BudgetShare, work: Callable[[decode.BodyLimits], T]) -> T:
    """Run what decodes and pushes a body in a thread, with as much of the budget as its readings take in memory."""
    room = decode.BodyLimits(context.settings.push_max_rows)
    while True:
        try:
            return await context.workers.push.run(work, room)
        except decode.NeedsRoom as need:
            # Not in the thread: one that waits for the budget would keep others from giving theirs back.
            await share.take(need.size - (room.size if room.size > decode.UNCOUNTED_BYTES else 0))
            room = replace(room, size=need.size)


@contextmanager
def counting_refusals(context: Context, way: str) -> Iterator[None]:
    """A push that is refused as a whole counts among what its way in refused, and why."""
    try:
        yield
    except PenstockError as problem:
        context.database.ways_in[way].refuse(problem.condition, problem.message)
        raise


def count_receipt(context: Context, table: str, way: str, receipt: IngestReceipt, size: int) -> None:
    """A push that came through, with the readings of it that were refused one by one."""
    context.counters.body_bytes.inc(size)
    context.counters.readings.labels(table, "accepted").inc(receipt.accepted)
    counts = context.database.ways_in[way]
    counts.came(1, size)
    reasons = Counter(refusal.condition for refusal in receipt.refused)
    counts.stored(receipt.accepted, reasons.pop("duplicate_reading", 0))
    if receipt.refused:
        context.counters.readings.labels(table, "refused").inc(len(receipt.refused))
        messages = {refusal.condition: refusal.message for refusal in receipt.refused}
        for condition, count in reasons.items():
            counts.refuse(condition, messages[condition], count)


@router.websocket("/{table}/readings")
@needs("write")
async def take_readings(websocket: WebSocket, table: str) -> None:
    """`{"frame": 0, "accepted": 2, "refused": [], "position": 17}`, or `{"frame": 0, "error": {...}}`, frame by frame."""
    context: Context = websocket.app.state.context
    allow_frames(websocket.scope, context.settings.body_max_bytes, context.budget, texts_as_bytes=True)
    await websocket.accept()
    context.counters.senders += 1
    client = client_name(caller_of(websocket))
    number = 0
    try:
        while not context.lifecycle.closing.is_set():
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if not await _turn(context, client):
                break
            refusal = _refusal(context)
            text = message.get("penstock.text") or message.get("text") or b""
            answer = refusal or await _push(context, table, message.get("bytes"), text)
            await websocket.send_text(orjson.dumps({"frame": number, **answer}).decode())
            number += 1
            if refusal is not None:
                await websocket.close(POLICY_VIOLATION)
                return
        await websocket.close(GOING_AWAY)
    except (WebSocketDisconnect, RuntimeError):
        return  # gone before its answer; what it sent is stored or was never taken
    finally:
        context.counters.senders -= 1


async def _turn(context: Context, client: str) -> bool:
    """Whether it became a client's turn, before the server closed."""
    closing = context.lifecycle.closing
    while (wait_s := context.rates.take(client)) > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await closing.wait()
        if closing.is_set():
            return False
    return True


def _refusal(context: Context) -> dict[str, Any] | None:
    """Why the caller of a connection may not send any more: it may have been open for days."""
    try:
        require(context.caller(), "write", "sending readings")
    except PenstockError as problem:
        return problem.body()
    return None


async def _push(context: Context, table: str, packed: Body | None, text: Body | str) -> dict[str, Any]:
    """What became of one frame. A frame that cannot be read is told like a bad body, and the next may be better."""

    def work(room: decode.BodyLimits) -> tuple[str | None, IngestReceipt]:
        key, readings = _decode(packed, text, room)
        return key, context.database.push(table, readings, key)

    try:
        context.lifecycle.require_ready()
        size = len(packed or text)
        with counting_refusals(context, "websocket"):
            # The frame itself is counted by its connection.
            with context.budget.share() as share:
                key, receipt = await with_room(context, share, work)
    except PenstockError as problem:
        return problem.body()
    except Exception:
        log.exception("a frame of readings failed")
        return internal_error().body()
    count_receipt(context, table, "websocket", receipt, size)
    facts = {"accepted": receipt.accepted, "refused": receipt.refused, "position": receipt.position}
    return facts if key is None else {"id": key, **facts}


def _decode(packed: Body | None, text: Body | str, room: decode.BodyLimits) -> tuple[str | None, decode.Readings]:
    if packed:
        media_type = decode.PARQUET if packed.startswith(b"PAR1") else decode.ARROW
        return None, decode.decode_readings(packed, media_type, room)
    found = decode.parse_json(text, room)
    if not isinstance(found, dict) or "readings" not in found:
        return None, decode.rows_of_json(found, room)
    key = found.get("id")
    if key is not None and not (isinstance(key, str) and 1 <= len(key) <= KEY_MAX_CHARS):
        raise error("invalid_parameter", detail=f"an id is a text of 1 to {KEY_MAX_CHARS} characters")
    return key, decode.rows_of_json(found["readings"], room)
