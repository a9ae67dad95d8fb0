"""The outermost layer around every request: it has a name, its answer has the headers of all answers, is counted and is logged."""

from __future__ import annotations

import logging
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.logs import request_named

log = logging.getLogger("penstock.requests")
HEADER = "X-Request-ID"
# No guessing of types, no frames around us, nothing told to other sites.
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_POLICY = b"content-security-policy"
# Answers of the API are data: a browser that shows one may load and run nothing for it.
_FOR_DATA = b"default-src 'none'; frame-ancestors 'none'"
# Pages load from us and talk to us only, whatever got into them. NiceGUI makes scripts of its templates.
_FOR_PAGES = (
    b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    b"img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'; "
    b"frame-ancestors 'none'"
)
# The library would add a series with the time of the first count to every one of ours.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types for it
# A client may invent methods; each would be a series of its own.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Seconds until an answer begins: a push on a quick disk, a page that feels instant, a question to Spark.
BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)


class RequestCounters:
    """The metrics of one server's API, in a registry of its own: tests run many servers in one process."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self.requests = Counter(
            "penstock_http_requests", "Answers that began.", ("method", "route", "status"), registry=own
        )
        self.took = Histogram(
            "penstock_http_request_seconds",
            "Seconds until an answer began.",
            ("route",),
            registry=own,
            buckets=BUCKETS_S,
        )
        self.readings = Counter(
            "penstock_http_readings", "Readings that were pushed.", ("table", "outcome"), registry=own
        )
        self.body_bytes = Counter("penstock_http_body_bytes", "Bytes of pushes.", registry=own)
        # Touched by the event loop only, so without a lock.
        self.places = 0  # of `subscribers_max`, from before a subscription is opened until it is closed
        self.subscribers = 0  # streams of events that have begun
        self.senders = 0
        subscribers = Gauge("penstock_http_subscribers", "Streams of events that are open.", registry=own)
        subscribers.set_function(lambda: self.subscribers)
        senders = Gauge("penstock_http_senders", "WebSockets that send readings.", registry=own)
        senders.set_function(lambda: self.senders)

    def note_answer(self, scope: Scope, status: int, took_s: float) -> None:
        """An answer began. Counted by its route, not by its path: names of tables must not multiply."""
        method, route = scope["method"], getattr(scope.get("route"), "path", "none")
        self.requests.labels(method if method in _METHODS else "other", route, status).inc()
        self.took.labels(route).observe(took_s)


class RequestFrame:
    """Names a request, as its sender did or by chance. Completes, counts and, at INFO, logs its answer when that begins."""

    def __init__(self, app: ASGIApp, counters: RequestCounters) -> None:
        self._app = app
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        with request_named(Headers(scope=scope).get(HEADER)) as name:

            async def watch(message: Message) -> None:
                if message["type"] == "http.response.start":
                    headers = message.get("headers", ())
                    message["headers"] = [*headers, *_missing(headers), (HEADER.lower().encode(), name.encode())]
                    took_s = time.perf_counter() - began
                    self._counters.note_answer(scope, message["status"], took_s)
                    if log.isEnabledFor(logging.INFO):
                        _log_answer(scope, message["status"], took_s)
                await send(message)

            await self._app(scope, receive, watch)


def _missing(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """What every answer carries and this one does not; a page that has a policy of its own keeps it."""
    names = {name.lower(): value for name, value in headers}
    found = [pair for pair in _ALWAYS if pair[0] not in names]
    if _POLICY not in names:
        kind = names.get(b"content-type", b"")
        # A script or a style has no policy of its own: that of the page counts.
        is_data = not kind.startswith((b"text/html", b"text/css", b"text/javascript", b"application/javascript"))
        found.append((_POLICY, _FOR_DATA if is_data else _FOR_PAGES))
    return found


def _log_answer(scope: Scope, status: int, took_s: float) -> None:
    """Log an answer, never with the query string, which may contain secrets."""
    method, path, ms = scope["method"], scope["path"], round(took_s * 1000, 2)
    user = getattr(scope.get("penstock.caller"), "name", None)
    facts = {"method": method, "path": path, "status": status, "ms": ms, "user": user}
    log.info("%s", f"{method} {path!r} {status} in {ms} ms", extra={"facts": facts})
