"""WebSocket /v1/queries/{name}/ws: the same results as the server-sent events, as JSON messages.

`{"event": "rows", "cycle": 184, ...}`, `{"event": "ping", "cycle": 184}` every 15 s, and `{"event": "error", ...}`
before the server closes. A client that reconnects asks for `from_cycle` = the last cycle it saw, plus one.

WebSocket /v1/tables/{table}/readings: one frame is one push, answered by one message when its readings are on disk.

A text frame is JSON: a reading, an array of them, or `{"id": ..., "readings": [...]}`, where the id makes a repeat harmless as an Idempotency-Key does. A
binary frame is an Arrow stream or, if it begins as one, a Parquet file. Frames are taken one after another, so their order is the
log's; a sender that is faster than the disk, or than `requests_per_s`, waits.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any

import orjson
from fastapi import APIRouter, Query
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from penstock.errors import PenstockError, error
from penstock.security.caller import require
from penstock.server.http.access import client_name
from penstock.server.http.body_limits import Body
from penstock.server.http.connections import allow_frames
from penstock.server.http.context import Context, caller_of, needs
from penstock.server.http.decode import ARROW, PARQUET, BodyLimits, Readings, decode_readings, parse_json, rows_of_json
from penstock.server.http.encode import encode_event
from penstock.server.http.errors import internal_error, log
from penstock.server.routes.events import Framing, open_subscription, stream_events
from penstock.server.routes.readings import KEY_MAX_CHARS, count_receipt, counting_refusals, receipt_facts, with_room
from penstock.streams.ingest.readings import IngestReceipt

router = APIRouter(prefix="/v1")

GOING_AWAY = 1001
POLICY_VIOLATION = 1008

MESSAGES = Framing(
    hello=None,
    rows=lambda event: b'{"event":"rows",' + encode_event(event)[1:],
    ping=lambda cycle: b'{"event":"ping","cycle":%d}' % cycle,
    problem=lambda problem: orjson.dumps({"event": "error", **problem.body()}),
)


@router.websocket("/queries/{name}/ws")
async def follow(
    websocket: WebSocket,
    name: str,
    from_cycle: int | None = Query(default=None, ge=0),
    changes: bool = Query(default=False),
) -> None:
    """Starts with the current answer or with `from_cycle`. What a client says is read and ignored."""
    context: Context = websocket.app.state.context
    # Accepted also where there is nothing to follow: a page only learns why from a message.
    await websocket.accept()
    sending = asyncio.ensure_future(_send(websocket, context, name, from_cycle, changes))
    leaving = asyncio.ensure_future(_until_gone(websocket))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _send(websocket: WebSocket, context: Context, name: str, from_cycle: int | None, changes: bool) -> None:
    try:
        try:
            context.lifecycle.require_ready()
            subscription = await open_subscription(context, name, from_cycle, changes)
        except Exception as surprise:
            problem = surprise if isinstance(surprise, PenstockError) else internal_error()
            if problem is not surprise:
                log.exception("a subscription could not be opened")
            await websocket.send_text(MESSAGES.problem(problem).decode())
            await websocket.close(POLICY_VIOLATION, problem.condition)
            return
        async with aclosing(stream_events(subscription, context, framing=MESSAGES)) as frames:  # type: ignore[type-var]
            async for frame in frames:
                await websocket.send_text(frame.decode())
        await websocket.close(GOING_AWAY)
    except (WebSocketDisconnect, RuntimeError):
        return  # gone while we spoke


async def _until_gone(websocket: WebSocket) -> None:
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


_PARQUET_BEGINS = b"PAR1"


@router.websocket("/tables/{table}/readings")
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
            answer = refusal or await _push(context, table, message.get("bytes"), _text_of(message))
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


def _text_of(message: Message) -> Body | str:
    text: Body | str = message.get("penstock.text") or message.get("text") or b""
    return text


async def _push(context: Context, table: str, packed: Body | None, text: Body | str) -> dict[str, Any]:
    """What became of one frame. A frame that cannot be read is told like a bad body, and the next may be better."""

    def work(room: BodyLimits) -> tuple[str | None, IngestReceipt]:
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
    facts = receipt_facts(receipt)
    return facts if key is None else {"id": key, **facts}


def _decode(packed: Body | None, text: Body | str, room: BodyLimits) -> tuple[str | None, Readings]:
    if packed:
        return None, decode_readings(packed, PARQUET if packed.startswith(_PARQUET_BEGINS) else ARROW, room)
    found = parse_json(text, room)
    if not isinstance(found, dict) or "readings" not in found:
        return None, rows_of_json(found, room)
    key = found.get("id")
    if key is not None and not (isinstance(key, str) and 1 <= len(key) <= KEY_MAX_CHARS):
        raise error("invalid_parameter", detail=f"an id is a text of 1 to {KEY_MAX_CHARS} characters")
    return key, rows_of_json(found["readings"], room)
