"""The API on a real socket, in a thread of the test."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.server.app import Server, configured, create_app, url_of
from penstock.server.http.access import RateLimits
from penstock.server.http.context import Lifecycle
from penstock.server.http.listener import bind
from penstock.settings import Settings
from tests.server.fake import FakeDatabase


class Live:
    """A running server. `stop` ends it as SIGTERM would; `start` brings it back at the same address."""

    def __init__(
        self, database: FakeDatabase, settings: Settings, grace_s: int = 2, rates: RateLimits | None = None
    ) -> None:
        self._database = database
        self._settings = settings
        self._grace_s = grace_s
        self._rates = rates
        self._port = 0
        self.url = ""
        self.send_buffer_bytes = 0

    def start(self) -> None:
        listener = bind("127.0.0.1", self._port)
        self.url = url_of(listener, bool(self._settings.tls_key))
        self._port = listener.getsockname()[1]
        # Connections have small buffers in the kernel, so that a slow reader is noticed soon.
        if self.send_buffer_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer_bytes)
        lifecycle = Lifecycle()
        self.app = create_app(self._database, self._settings, lifecycle, self._rates)
        self._server = Server(configured(self.app, self._settings, self._grace_s), lifecycle)
        self._loop = asyncio.new_event_loop()
        serve = self._server.serve([listener])
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(serve))
        self._thread.start()

    def unsent_bytes(self) -> list[int]:
        """What waits in the server's memory, per connection, because its reader does not read."""
        found = [getattr(c, "transport", None) for c in list(self._server.server_state.connections)]
        return [t.get_write_buffer_size() for t in found if t is not None and not t.is_closing()]

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._server.ask_to_stop)
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._loop.close()
        self.app.state.context.workers.close()
        self.app.state.context.sessions.close()


@contextmanager
def serving(
    database: FakeDatabase, settings: Settings | None = None, grace_s: int = 2, rates: RateLimits | None = None
) -> Iterator[Live]:
    live = Live(database, settings or Settings(), grace_s, rates)
    live.start()
    try:
        yield live
    finally:
        live.stop()
