"""What the API counts about itself, for /metrics."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A client may invent methods; each would be a series of its own.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

HTTP_SECONDS = "penstock_http_request_seconds"
# Seconds until an answer begins: a push on a quick disk, a page that feels instant, a question to Spark.
BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]


class Counters:
    """What the API counts itself. Touched by the event loop only, so without a lock."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.readings: Counter[tuple[str, str]] = Counter()
        # Per route: how many answers began within each bucket (not yet added up), and how long they took.
        self.took: dict[str, tuple[list[int], float]] = {}
        self.bytes_in = 0
        self.places = 0  # of `subscribers_max`, from before a subscription is opened until it is closed
        self.subscribers = 0  # streams of events that have begun
        self.senders = 0

    def note_answer(self, method: str, route: str, status: int, took_s: float) -> None:
        """An answer began."""
        method = method if method in _METHODS else "other"
        self.requests[method, route, status] += 1
        counts, total_s = self.took.get(route) or ([0] * (len(BUCKETS_S) + 1), 0.0)
        counts[bisect_left(BUCKETS_S, took_s)] += 1
        self.took[route] = (counts, total_s + took_s)

    def _took_samples(self) -> Iterator[Sample]:
        for route, (counts, total_s) in self.took.items():
            labels = (("route", route),)
            for edge, count in zip((*BUCKETS_S, "+Inf"), accumulate(counts), strict=True):
                yield f"{HTTP_SECONDS}_bucket", (*labels, ("le", str(edge))), count
            yield f"{HTTP_SECONDS}_count", labels, sum(counts)
            yield f"{HTTP_SECONDS}_sum", labels, round(total_s, 6)

    def samples(self) -> Iterator[Sample]:
        yield from self._took_samples()
        for (method, route, status), count in self.requests.items():
            labels = (("method", method), ("route", route), ("status", str(status)))
            yield "penstock_http_requests_total", labels, count
        for (table, outcome), count in self.readings.items():
            yield "penstock_http_readings_total", (("table", table), ("outcome", outcome)), count
        yield "penstock_http_body_bytes_total", (), self.bytes_in
        yield "penstock_http_senders", (), self.senders
        yield "penstock_http_subscribers", (), self.subscribers


class CountRequests:
    """Counts every answer by method, route and status. Routes, not paths: names of tables must not multiply."""

    def __init__(self, app: ASGIApp, counters: Counters) -> None:
        self._app = app
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                took_s = time.perf_counter() - began
                self._counters.note_answer(scope["method"], route, message["status"], took_s)
            await send(message)

        await self._app(scope, receive, watch if scope["type"] == "http" else send)
