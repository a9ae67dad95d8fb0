"""What the API counts about itself, for /metrics."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The library would add a series with the time of the first count to every one of ours.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types for it

# A client may invent methods; each would be a series of its own.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Seconds until an answer begins: a push on a quick disk, a page that feels instant, a question to Spark.
BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)


class RequestCounters:
    """The metrics of one server's API, in a registry of its own: tests run many servers in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "penstock_http_requests", "Answers that began.", ("method", "route", "status"), registry=self.registry
        )
        self.took = Histogram(
            "penstock_http_request_seconds",
            "Seconds until an answer began.",
            ("route",),
            registry=self.registry,
            buckets=BUCKETS_S,
        )
        self.readings = Counter(
            "penstock_http_readings", "Readings that were pushed.", ("table", "outcome"), registry=self.registry
        )
        self.body_bytes = Counter("penstock_http_body_bytes", "Bytes of pushes.", registry=self.registry)
        # Touched by the event loop only, so without a lock.
        self.places = 0  # of `subscribers_max`, from before a subscription is opened until it is closed
        self.subscribers = 0  # streams of events that have begun
        self.senders = 0
        Gauge("penstock_http_subscribers", "Streams of events that are open.", registry=self.registry).set_function(
            lambda: self.subscribers
        )
        Gauge("penstock_http_senders", "WebSockets that send readings.", registry=self.registry).set_function(
            lambda: self.senders
        )

    def note_answer(self, method: str, route: str, status: int, took_s: float) -> None:
        """An answer began."""
        self.requests.labels(method if method in _METHODS else "other", route, status).inc()
        self.took.labels(route).observe(took_s)


class CountRequests:
    """Counts every answer by method, route and status. Routes, not paths: names of tables must not multiply."""

    def __init__(self, app: ASGIApp, counters: RequestCounters) -> None:
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
