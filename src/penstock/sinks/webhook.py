"""webhook: each cycle's rows as a JSON document, POSTed to an address and signed.

At least once. A repeat has the same Idempotency-Key, so a receiver that remembers keys gets every cycle once.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpcore
import httpx
import orjson

from penstock.catalog.secrets import shown_address
from penstock.clock import SECOND, format_timestamp
from penstock.json_rows import row_objects
from penstock.sensors.address_rules import Targets
from penstock.sinks.base import Kind, Option, Outlet, Place, SinkBatch, delivery_failed
from penstock.sinks.options import BATCH_ROWS, CHANGES, ROWS, TIMEOUT, address

SIGNATURE = "Penstock-Signature"
_SHOWN_CHARS = 200
_READ_BYTES = 1 << 16


class CheckedBackend(httpcore.SyncBackend):
    """Connects to addresses that the setting `connect_allow` lets through; TLS goes on checking the name."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets

    def connect_tcp(self, host: str, port: int, *arguments: Any, **named: Any) -> httpcore.NetworkStream:
        try:
            found = self._targets.resolve(host, port, by_admin=True)
        except OSError as failure:
            raise httpcore.ConnectError(str(failure)) from failure
        for number, target in enumerate(found, 1):
            try:
                return super().connect_tcp(target.address, port, *arguments, **named)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if number == len(found):
                    raise
        raise AssertionError("a target that is allowed has an address")


class Webhook(Outlet):
    """POSTs to one address over one kept connection."""

    def __init__(self, place: Place, options: Mapping[str, Any]) -> None:
        self._place = place
        self._options = options
        if options["proxy"]:
            parts = urlsplit(options["url"])
            port = parts.port or (443 if parts.scheme == "https" else 80)
            place.rules.targets.check_unresolved(parts.hostname or "", port, by_admin=True)
        transport = httpx.HTTPTransport(trust_env=False, proxy=options["proxy"] or None)
        # httpx has no other way for this; the tests of addresses notice if the inside is built otherwise one day.
        transport._pool._network_backend = CheckedBackend(place.rules.targets)
        # Redirects are not followed: a signed body goes where it was told to go, or nowhere.
        self._client = httpx.Client(
            timeout=options["timeout"], follow_redirects=False, trust_env=False, transport=transport
        )

    def deliver(self, batch: SinkBatch) -> None:
        sink, most = self._place.sink, self._options["batch_rows"]
        count = max(1, -(-batch.table.num_rows // most))
        for number in range(count):
            document = {
                "sink": sink.name,
                "query": sink.query,
                "cycle": batch.cycle,
                "now": None if batch.now_us is None else format_timestamp(batch.now_us),
                "kind": "answer" if batch.whole else "rows",
                "part": number + 1,
                "parts": count,
                "rows": row_objects(batch.table.slice(number * most, most)),
            }
            self._post(batch.cycle, number, orjson.dumps(document))

    def _post(self, cycle: int, part: int, body: bytes) -> None:
        sink, options = self._place.sink, self._options
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "penstock",
            "Penstock-Sink": sink.name.encode("ascii", "backslashreplace").decode(),
            "Penstock-Cycle": str(cycle),
            "Idempotency-Key": f"{self._place.folder_id}-{sink.id}-{cycle}-{part}",
        }
        if options["secret"]:
            headers[SIGNATURE] = sign(options["secret"], body, self._place.clock.now_us() // SECOND)
        if options["token"]:
            headers["Authorization"] = f"Bearer {options['token']}"
        try:
            with self._client.stream("POST", options["url"], content=body, headers=headers) as answer:
                said = self._read(answer)
        except httpx.HTTPError as failure:
            raise delivery_failed(f"{type(failure).__name__}: {failure}") from None
        if not answer.is_success:
            shown = said.decode(errors="replace")[:_SHOWN_CHARS].strip()
            after = answer.headers.get("retry-after", "")
            detail = f"it answered {answer.status_code}" + (f": {shown}" if shown else "")
            raise delivery_failed(detail, float(after) if after.strip().isdigit() else None)

    def _read(self, answer: httpx.Response) -> bytes:
        """What it says, as far as that is short and quick: an answer without an end must not hold the sink up."""
        said, until = b"", time.monotonic() + self._options["timeout"]
        for chunk in answer.iter_raw():
            said += chunk
            if len(said) > _READ_BYTES or time.monotonic() > until:
                break
        return said

    def close(self) -> None:
        self._client.close()


def sign(secret: str, body: bytes, at_s: int) -> str:
    """`t=<seconds>,v1=<hex>`: HMAC-SHA256 over the time, a dot and the body, so an old message cannot be played again."""
    signed = hmac.new(secret.encode(), b"%d." % at_s + body, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={signed}"


KIND = Kind(
    name="webhook",
    sentence="POSTs each cycle's rows as JSON, signed with HMAC-SHA256.",
    promise="at least once; a repeat has the same Idempotency-Key",
    options=(
        Option("url", None, "Where to POST to.", address("http", "https")),
        Option("secret", "", "Signs every body: header Penstock-Signature. Empty: not signed."),
        Option("token", "", "Sent as a bearer token. Empty: none."),
        TIMEOUT,
        BATCH_ROWS,
        CHANGES,
        ROWS,
        Option("proxy", "", "Address of an HTTP proxy. Empty: none."),
    ),
    open=Webhook,
    target=lambda options: shown_address(options["url"]).partition("?")[0],
)
