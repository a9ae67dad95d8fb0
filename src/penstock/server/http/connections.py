"""Connections of clients as Uvicorn has them, with an end to everything that comes before a role is known.

Uvicorn bounds neither the head of a request, nor the time it takes, nor what a WebSocket holds while a frame comes in.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from penstock.errors import PenstockError
from penstock.server.http.body_limits import UNKNOWN_ROLE_MAX_BYTES, UNKNOWN_ROLE_S, BudgetShare, ByteBudget

# The address and all headers of a request.
HEAD_MAX_BYTES = 32 << 10
# Requests of one connection that wait for the answers before them.
PIPELINED_MAX = 64
TRY_AGAIN_LATER = 1013  # of the WebSocket close codes

_FRAMES = "penstock.frames"


class HttpConnection(HttpToolsProtocol):
    """HTTP/1.1 with heads bounded in size and time. It stops discarding the body of a refused request after a limit."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._deadline: asyncio.TimerHandle | None = None
        self._message_ended = True
        self._is_upgraded = False
        self._head_bytes = 0
        # Whether anything came of the bytes that came: a line of a head without an end is kept by the parser.
        self._steps = 0
        self._stalled_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self._steps
        super().data_received(data)
        if self._is_upgraded:
            return  # the transport is the WebSocket's now
        cycle: Any = self.cycle
        is_answering = cycle is not None and not cycle.response_complete
        self._stalled_bytes = self._stalled_bytes + len(data) if self._steps == before else 0
        if self._stalled_bytes > HEAD_MAX_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")
        elif self._deadline is None and not is_answering:
            self._start_deadline()

    def handle_websocket_upgrade(self) -> None:
        self._stop_deadline()
        self._is_upgraded = True
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX:
            raise ValueError("too many requests without waiting for answers")
        self._steps += 1
        self._head_bytes = 0
        self._message_ended = False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._steps += 1
        self._count_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._steps += 1
        self._stop_deadline()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._steps += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._steps += 1
        self._message_ended = True
        self._stop_deadline()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # A body that was refused is discarded, but not for ever; a head that has begun has to end, too.
        if not self._message_ended:
            self._start_deadline()

    def timeout_keep_alive_handler(self) -> None:
        # A body that still comes has its own deadline; its sender may not have read the answer yet.
        if self._message_ended:
            super().timeout_keep_alive_handler()

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_MAX_BYTES:
            raise ValueError("the head of the request is too long")

    def _start_deadline(self) -> None:
        self._stop_deadline()
        self._deadline = self.loop.call_later(UNKNOWN_ROLE_S, self._cut)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()


class SocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket with small messages until its handler allows larger ones. They are counted while they come.

    Reading pauses while the budget has no room for more.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.conn.max_message_size = UNKNOWN_ROLE_MAX_BYTES
        self._share: BudgetShare | None = None
        self._texts_as_bytes = False
        self._waiting: asyncio.Task[None] | None = None
        self._queued_bytes = 0
        self._handled_bytes = 0

    def allow(self, limit: int, budget: ByteBudget, texts_as_bytes: bool) -> None:
        """From now on messages of up to so many bytes, counted against the budget."""
        self.conn.max_message_size = limit
        self._share = budget.share()
        self._texts_as_bytes = texts_as_bytes
        self._count()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._queued_bytes = 0
        super().connection_lost(exc)
        # What the handler still works on is counted until it asks for more (`receive`), or ends (`run_asgi`).
        if self._share is not None:
            self._share.give_back(self._share.held - self._handled_bytes)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._count()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            cast(dict[str, Any], self.scope)[_FRAMES] = self

    def handle_cont(self, event: Frame) -> None:
        # One piece, however many frames it came in: a frame of no bytes takes room, too.
        pieces: list[Any] = self.frames
        whole = pieces[0] if isinstance(pieces[0], bytearray) else bytearray().join(pieces)
        whole += event.data
        pieces[:] = [bytes(whole) if event.fin else whole]
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        size = sum(map(len, self.frames))
        if not self.close_sent:
            self._queued_bytes += size
        if self._texts_as_bytes and self.curr_msg_data_type == "text" and not self.close_sent:
            # A text of one wide character among many narrow ones takes four times its bytes.
            data = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
            self.frames = []
            message: Any = {"type": "websocket.receive", "penstock.text": data}
            self.queue.put_nowait(message)
            if not self.read_paused:
                self.read_paused = True
                self.transport.pause_reading()
            return
        super().send_receive_event_to_app()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            # Refused with an answer of its own; Uvicorn would log that no answer came.
            self.handshake_complete = True

    async def receive(self) -> Any:
        self._handled_bytes = 0
        self._count()
        message: Any = await super().receive()
        self._handled_bytes = len(
            message.get("penstock.text") or message.get("bytes") or message.get("text") or ""  # of a text: at least
        )
        self._queued_bytes = max(self._queued_bytes - self._handled_bytes, 0) if not self.queue.empty() else 0
        self._count()
        return message

    async def run_asgi(self) -> None:
        try:
            await super().run_asgi()
        finally:
            if self._waiting is not None:
                self._waiting.cancel()
            if self._share is not None:
                self._share.give_back(self._share.held)
                self._share = None

    def _count(self) -> None:
        """Hold what is in memory, and read no more where there is no room for it."""
        share = self._share
        if share is None:
            return
        held = len(self.conn.reader.buffer) + sum(map(len, self.frames)) + self._queued_bytes + self._handled_bytes
        if held <= share.held:
            share.give_back(share.held - held)
        elif self._waiting is None and not share.try_take(held - share.held):
            self._waiting = asyncio.ensure_future(self._wait(share, held - share.held))
        if self._waiting is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    async def _wait(self, share: BudgetShare, size: int) -> None:
        try:
            await share.take(size)
        except PenstockError as problem:
            if not self.transport.is_closing():
                self.conn.fail(TRY_AGAIN_LATER, problem.condition)
                self.handle_parser_exception()
            return
        finally:
            self._waiting = None
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()


def allow_frames(scope: Scope, limit: int, budget: ByteBudget, texts_as_bytes: bool = False) -> None:
    """Let a WebSocket of a caller with a role send messages of up to so many bytes.

    With `texts_as_bytes` a text comes as `penstock.text`, not decoded.
    """
    connection = scope.get(_FRAMES)
    if isinstance(connection, SocketConnection):
        connection.allow(limit, budget, texts_as_bytes)
