"""A receiver of webhooks on loopback, and a database without Spark whose sinks hurry."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.pipe import Pipe


def eventually(check: Callable[[], object], what: str = "") -> None:
    """Wait until something is so. The limit only ends a test that would fail anyway."""
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline, what or "it did not happen"
        time.sleep(0.01)


class Receiver:
    """Takes POSTs. `statuses` answers the next ones, then 200; while `held`, nobody gets an answer."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.taken: list[tuple[dict[str, str], bytes]] = []  # those that were answered with 200
        self.statuses: list[int] = []
        self.refuse_all = False
        self.let_go = threading.Event()
        self.let_go.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:
                    return  # its sender was killed while it sent
                receiver.let_go.wait()
                request = (dict(self.headers.items()), body)
                receiver.requests.append(request)
                status = receiver.statuses.pop(0) if receiver.statuses else 503 if receiver.refuse_all else 200
                if status == 200:
                    receiver.taken.append(request)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in list(self.requests)]

    def rows(self, column: str = "value") -> list[Any]:
        """What was taken, repeats of a key left out, as a careful receiver would."""
        seen: dict[str, dict[str, Any]] = {}
        for headers, body in list(self.taken):
            seen.setdefault(headers["Idempotency-Key"], json.loads(body))
        return [row[column] for body in seen.values() for row in body["rows"]]

    def close(self) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()


def sink(pipe: Pipe, name: str = "out") -> dict[str, Any]:
    """What is told about a sink."""
    (found,) = [row for row in pipe.db.system.table("penstock.sinks").to_pylist() if row["name"] == name]
    return dict(found)


def hot_probes(pipe: Pipe, window: str = "") -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY hot AS SELECT id, place, value FROM probes WHERE value > 10 {window}")
    pipe.engine.drain()


def push(pipe: Pipe, *values: float) -> None:
    pipe.push(*values)
    pipe.engine.drain()


def kill(pipe: Pipe) -> None:
    """What a killed server leaves: its sinks get no time to write down how far they came."""
    sinks = pipe.db.folder.sinks
    written = {path: path.read_bytes() for path in sinks.glob("*/position.json")}
    pipe.db.stop()
    for path in sinks.glob("*/position.json"):
        path.unlink()
    for path, position in written.items():
        path.write_bytes(position)
