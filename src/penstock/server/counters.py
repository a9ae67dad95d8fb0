"""What the API counts about itself, for /metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A client may invent methods; each would be a series of its own.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]


class Counters:
    """What the API counts itself. Touched by the event loop only, so without a lock."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.readings: Counter[tuple[str, str]] = Counter()
        self.bytes_in = 0
        self.subscribers = 0

    def samples(self) -> Iterator[Sample]:
        for (method, route, status), count in self.requests.items():
            labels = (("method", method), ("route", route), ("status", str(status)))
            yield "penstock_http_requests_total", labels, count
        for (table, outcome), count in self.readings.items():
            yield "penstock_http_readings_total", (("table", table), ("outcome", outcome)), count
        yield "penstock_http_body_bytes_total", (), self.bytes_in
        yield "penstock_http_subscribers", (), self.subscribers


class CountRequests:
    """Counts every answer by method, route and status. Routes, not paths: names of tables must not multiply."""

    def __init__(self, app: ASGIApp, counters: Counters) -> None:
        self._app = app
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self._counters.requests[method, route, message["status"]] += 1
            await send(message)

        await self._app(scope, receive, watch if scope["type"] == "http" else send)
