"""One HTTP connection pool, and the translation of everything that can go wrong on it."""

from __future__ import annotations

import base64
import math
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import httpx
import orjson

from penstock.errors import CONDITIONS, PenstockError, error

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"

# A statement may run for minutes; that nothing is there shows at once.
TIMEOUT = httpx.Timeout(60.0, connect=5.0, read=600.0)


class Transport:
    """Sends requests; raises PenstockError for every refusal and connection_failed where there is no answer."""

    def __init__(
        self, url: str, token: str | None, client: httpx.Client | None, user: str | None, ca: str | None
    ) -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if user:
            headers["Penstock-User"] = user
        # Settings of a proxy in the environment are for other hosts than a database beside us.
        self._client = client or httpx.Client(timeout=TIMEOUT, trust_env=False, verify=_trusting(self.url, ca))
        self._headers = headers

    def call(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        read_s: float | None = None,
    ) -> httpx.Response:
        """`read_s`: how long the answer may take, where that is longer than usual."""
        timeout = httpx.USE_CLIENT_DEFAULT if read_s is None else httpx.Timeout(60.0, connect=5.0, read=read_s)
        sent = {**self._headers, **(headers or {})}
        try:
            response = self._client.request(
                method, self.url + path, content=content, headers=sent, params=params, timeout=timeout
            )
        except (httpx.TransportError, httpx.InvalidURL) as problem:
            raise self._failed(problem) from problem
        if response.status_code >= 400 and path != "/v1/health":  # "not ready" is an answer there
            raise read_error(response.content, response.status_code)
        return response

    def json(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        read_s: float | None = None,
    ) -> dict[str, Any]:
        """A call with JSON both ways. An empty answer has no fields."""
        content = None if body is None else to_json(body)
        headers = {"Accept": JSON} | ({"Content-Type": JSON} if body is not None else {})
        response = self.call(method, path, content=content, headers=headers, params=params, read_s=read_s)
        found: dict[str, Any] = orjson.loads(response.content or b"{}")
        return found

    @contextmanager
    def stream(
        self, path: str, headers: Mapping[str, str], params: Mapping[str, Any], silence_s: float
    ) -> Iterator[Iterator[str]]:
        """Lines of a long answer, as they come; connection_failed when it breaks or is silent too long."""
        timeout = httpx.Timeout(60.0, connect=5.0, read=silence_s)
        sent = {**self._headers, **headers}
        try:
            with self._client.stream("GET", self.url + path, headers=sent, params=params, timeout=timeout) as response:
                if response.status_code >= 400:
                    raise read_error(response.read(), response.status_code)
                yield response.iter_lines()
        except (httpx.TransportError, httpx.InvalidURL) as problem:
            raise self._failed(problem) from problem

    def _failed(self, problem: Exception) -> PenstockError:
        detail, hint = str(problem) or type(problem).__name__, f"is `penstock serve` running at {self.url}?"
        return error("connection_failed", url=self.url, detail=detail, hint=hint)

    def close(self) -> None:
        self._client.close()


def _trusting(url: str, ca: str | None) -> ssl.SSLContext | bool:
    """Certificates of the usual authorities, or those in the file `ca`; False where nothing is encrypted anyway."""
    if not url.startswith("https:"):
        return False
    if ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as problem:
        raise error("invalid_option", option="ca", detail=f'"{ca}" holds no certificates: {problem}') from None


def read_error(body: bytes, status: int) -> PenstockError:
    """The error that the server raised, with everything it carried."""
    try:
        detail = orjson.loads(body)["error"]
        condition, message = detail["condition"], detail["message"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        shown = body[:200].decode("utf-8", "replace")
        return error("internal_error", detail=f"status {status}: {shown}", hint="is this a Penstock server?")
    if condition not in CONDITIONS:
        # A newer server may know conditions that this client does not.
        condition, message = "internal_error", f"{condition}: {message}"
    found = PenstockError(condition, message, hint=detail.get("hint"))
    found.line, found.column, found.length = detail.get("line"), detail.get("column"), detail.get("length")
    return found


def to_json(value: Any) -> bytes:
    """JSON, with times in ISO 8601 (UTC where they name no zone), DECIMAL as exact text and bytes in base64."""
    try:
        return orjson.dumps(value, default=_encode, option=orjson.OPT_NAIVE_UTC | orjson.OPT_SERIALIZE_NUMPY)
    except TypeError as problem:
        raise error("invalid_parameter", detail=f"cannot be sent: {problem}") from None


def _encode(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def refuse_not_finite(values: Iterable[Any]) -> None:
    """JSON has no NaN, and sending NULL in its place would be a silent change."""
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            detail = f"{value} cannot travel in rows whose fields or types differ from row to row"
            hint = "push rows with the same fields and types together, or an Arrow table"
            raise error("invalid_parameter", detail=detail, hint=hint)
