"""WebSocket /v1/queries/{name}/ws: the same results as the server-sent events, as JSON messages.

`{"event": "rows", "cycle": 184, ...}`, `{"event": "ping", "cycle": 184}` every 15 s, and `{"event": "error", ...}`
before the server closes. A client that reconnects asks for `from_cycle` = the last cycle it saw, plus one.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import orjson
from fastapi import APIRouter, Query
from starlette.websockets import WebSocket, WebSocketDisconnect

from penstock.errors import PenstockError
from penstock.server.http.context import Context
from penstock.server.http.encode import encode_event
from penstock.server.http.errors import internal_error, log
from penstock.server.routes.events import Framing, open_subscription, stream_events

router = APIRouter(prefix="/v1/queries")

GOING_AWAY = 1001
POLICY_VIOLATION = 1008

MESSAGES = Framing(
    hello=None,
    rows=lambda event: b'{"event":"rows",' + encode_event(event)[1:],
    ping=lambda cycle: b'{"event":"ping","cycle":%d}' % cycle,
    problem=lambda problem: orjson.dumps({"event": "error", **problem.body()}),
)


@router.websocket("/{name}/ws")
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
