"""GET /v1/queries/{name}/events: results pushed as they are committed, as server-sent events.

WebSocket /v1/queries/{name}/ws: the same results as JSON messages. They are `{"event": "rows", "cycle": 184, ...}`,
`{"event": "ping", "cycle": 184}` every 15 s, and `{"event": "error", ...}` before the server closes. A client that reconnects
asks for `from_cycle` = the last cycle it saw, plus one.

A waiting subscriber costs no thread: the subscription calls back when there may be something, and one of a few
threads fetches and encodes it. A slow reader is held back by its own connection, and slows no other reader.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from penstock.errors import PenstockError, error
from penstock.server.http.access import GOING_AWAY, POLICY_VIOLATION
from penstock.server.http.context import Context, context_of, until_gone
from penstock.server.http.encode import encode_event
from penstock.server.http.errors import internal_error, log
from penstock.server.http.thread_pools import Turn
from penstock.server.models import ERRORS
from penstock.views.results import Event

if TYPE_CHECKING:
    from penstock.answers.subscription import Subscription

router = APIRouter(prefix="/v1/queries", tags=["queries"])

PING_S = 15.0
# A frame that is larger is made anew for every subscriber, so that events which are kept for others take little.
MOST_SHARED_BYTES = 1 << 20


@router.get(
    "/{name}/events",
    summary="Subscribe",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "`event: rows` with `id:` = cycle; `event: ping` every 15 s; `event: error` ends the stream",
            "content": {
                "text/event-stream": {
                    "schema": {"type": "string"},
                    "example": 'id: 184\nevent: rows\ndata: {"cycle":184,"now":"2026-01-05T12:00:00.000000Z",'
                    '"columns":[{"name":"ppm","type":"DOUBLE"}],"rows":[{"ppm":37.5}]}\n\n',
                }
            },
        },
        **ERRORS,
    },
)
async def subscribe(
    name: str,
    request: Request,
    from_cycle: int | None = Query(default=None, ge=0, description="start with this cycle's results"),
    changes: bool = Query(default=False, description="net changes with a column `op`, + or -"),
    final: bool = Query(default=False, description="each row once, when no later reading can change it"),
) -> Response:
    """Starts with the current answer, with `from_cycle`, or after the cycle in `Last-Event-ID`."""
    context = context_of(request)
    start = _start_cycle(request.headers.get("last-event-id"), from_cycle)
    return EventResponse(await open_subscription(context, name, start, changes, final), context)


class SubscriberPlace:
    """One of the `subscribers_max` places, with the subscription that has it.

    The event loop takes and gives places, so without a lock. Only `open` runs in another thread.
    """

    subscription: Subscription

    def __init__(self, context: Context) -> None:
        most = context.settings.subscribers_max
        if context.counters.places >= most:
            detail = f"there are {most} subscribers already"
            raise error("limit_reached", detail=detail, hint="try again later, or raise subscribers_max")
        context.counters.places += 1
        self._context = context
        self._closed = False

    def open(self, name: str, from_cycle: int | None, changes: bool, final: bool) -> None:
        self.subscription = self._context.database.subscribe(name, from_cycle, changes, final)
        if self._closed:  # its client left meanwhile
            self.subscription.close()

    def close(self) -> None:
        """Close the subscription, and give the place back once."""
        if not self._closed:
            self._closed = True
            self._context.counters.places -= 1
        if hasattr(self, "subscription"):
            self.subscription.close()


async def open_subscription(
    context: Context, name: str, from_cycle: int | None, changes: bool, final: bool = False
) -> SubscriberPlace:
    """One more subscriber, if there may be one more. It counts before anything is waited for."""
    place = SubscriberPlace(context)
    try:
        await context.workers.catalog.run(place.open, name, from_cycle, changes, final)
    except BaseException:
        place.close()
        raise
    return place


def _start_cycle(last_event_id: str | None, from_cycle: int | None) -> int | None:
    """A browser that reconnects repeats the first address and adds what it saw last: that wins."""
    if not last_event_id:
        return from_cycle
    try:
        return int(last_event_id) + 1
    except ValueError:
        raise error("invalid_parameter", detail=f'Last-Event-ID "{last_event_id}" is not a cycle') from None


class EventResponse(StreamingResponse):
    """The stream of one subscriber. Its place is given back however the stream ends."""

    def __init__(self, place: SubscriberPlace, context: Context) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(stream_events(place.subscription, context), headers=headers, media_type="text/event-stream")
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A reader that left before the first frame never started the generator, which closes its subscription at its end.
        with closing(self._place):
            await super().__call__(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Framing:
    """How a stream looks on the wire. `hello` tells the reader at once that it is connected."""

    hello: bytes | None
    rows: Callable[[Event], bytes]
    ping: Callable[[int], bytes]
    problem: Callable[[PenstockError], bytes]


SERVER_SENT = Framing(
    hello=b"retry: 1000\n\n",  # says how soon a browser shall come back
    rows=lambda event: b"id: %d\nevent: rows\ndata: %b\n\n" % (event.cycle, encode_event(event)),
    # A ping moves Last-Event-ID on too: after a quiet hour, the cycle of the last row may be gone.
    ping=lambda cycle: (b"id: %d\n" % cycle if cycle else b"") + b"event: ping\ndata: {}\n\n",
    problem=lambda problem: b"event: error\ndata: " + orjson.dumps(problem.body()) + b"\n\n",
)


async def stream_events(
    subscription: Subscription, context: Context, ping_s: float | None = None, framing: Framing = SERVER_SENT
) -> AsyncIterator[bytes]:
    """Frames until the reader leaves, the query is dropped or the server closes."""
    loop = asyncio.get_running_loop()
    wake = asyncio.Event()
    stopping = context.lifecycle.closing
    ping_s = PING_S if ping_s is None else ping_s
    context.counters.subscribers += 1
    budget = subscription.budget
    turn = Turn(context.pace[budget])
    closed = asyncio.ensure_future(stopping.wait())
    closed.add_done_callback(lambda _: wake.set())
    try:
        subscription.on_ready(lambda: _wake(loop, wake))
        if framing.hello is not None:
            yield framing.hello
        last = loop.time()
        wake.set()
        while not stopping.is_set():
            # A caller that may not sign in any more gets no more events.
            context.caller()
            try:
                async with asyncio.timeout_at(last + ping_s):
                    await wake.wait()
                    if subscription.may_skip_cycles:
                        await asyncio.wait({turn.ask(), closed}, return_when=asyncio.FIRST_COMPLETED)
            except TimeoutError:
                turn.is_away = True
                yield framing.ping(subscription.cycle)
                turn.is_away = False
                last = loop.time()
                continue
            if stopping.is_set():
                break
            wake.clear()
            # What mining functions find changes seldom and takes long: cycles are never looked at one by one.
            waited = turn.waited or budget == "mining"
            frames, spent_s = await context.workers.stream.run(_next_frames, subscription, framing, waited)
            turn.end(spent_s)  # before anything is sent: a slow reader must not hold up the others
            for frame in frames:
                yield frame
                last = loop.time()
            if frames and not waited:
                wake.set()  # there may be more
    except PenstockError as problem:
        yield framing.problem(problem)
    except Exception:
        # The answer has begun, so no body can be sent any more: without a frame the reader would see a broken line.
        if not stopping.is_set():
            log.exception("a subscription failed")
            yield framing.problem(internal_error())
    finally:
        context.counters.subscribers -= 1
        turn.end()
        closed.cancel()
        subscription.close()


def _wake(loop: asyncio.AbstractEventLoop, wake: asyncio.Event) -> None:
    if wake.is_set():
        return
    try:
        loop.call_soon_threadsafe(wake.set)
    except RuntimeError:
        # The loop ended between the commit and this call; its streams ended with it.
        return


def _next_frames(subscription: Subscription, framing: Framing, skips: bool) -> tuple[list[bytes], float]:
    """The next event, if there is one, and the processor time that it took. `skips`: all events, without the cycles that may be skipped."""
    began_s = time.thread_time()
    frames: list[bytes] = []
    while skips or not frames:
        if skips:
            subscription.skip_cycles()
        event = subscription.next(0)
        if event is None:
            break
        frames.append(_encoded(event, framing))
    return frames, time.thread_time() - began_s


def _encoded(event: Event, framing: Framing) -> bytes:
    frame = event.encoded.get(framing)
    if frame is None:
        frame = framing.rows(event)
        if len(frame) <= MOST_SHARED_BYTES:
            event.encoded[framing] = frame
    return frame


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
    final: bool = Query(default=False),
) -> None:
    """Starts with the current answer or with `from_cycle`. What a client says is read and ignored."""
    context: Context = websocket.app.state.context
    # Accepted also where there is nothing to follow: a page only learns why from a message.
    await websocket.accept()
    sending = asyncio.ensure_future(_send(websocket, context, (name, from_cycle, changes, final)))
    leaving = asyncio.ensure_future(until_gone(websocket.receive))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _send(websocket: WebSocket, context: Context, wanted: tuple[str, int | None, bool, bool]) -> None:
    try:
        try:
            context.lifecycle.require_ready()
            place = await open_subscription(context, *wanted)
        except Exception as surprise:
            problem = surprise if isinstance(surprise, PenstockError) else internal_error()
            if problem is not surprise:
                log.exception("a subscription could not be opened")
            await websocket.send_text(MESSAGES.problem(problem).decode())
            await websocket.close(POLICY_VIOLATION, problem.condition)
            return
        with closing(place):
            async with aclosing(stream_events(place.subscription, context, framing=MESSAGES)) as frames:  # type: ignore[type-var]
                async for frame in frames:
                    await websocket.send_text(frame.decode())
        await websocket.close(GOING_AWAY)
    except (WebSocketDisconnect, RuntimeError):
        return  # gone while we spoke
