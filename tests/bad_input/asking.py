"""One server, and what must still be true after anything was sent to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx
import pyarrow as pa

from penstock.clock import SECOND, format_timestamp
from tests.support.server_process import ServerProcess

BODY_KEYS = {"condition", "sqlstate", "message", "hint", "line", "column", "length"}
# What a user must never have to read.
INSIDES = ("Traceback", "org.apache", "Py4J", "py4j", 'File "', "java.lang", "SparkException")


JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"


class Clock:
    """Times relative to the server's first reading, which comes long after the cases below are listed."""

    began_us = 0


class At(float):
    """So many seconds after it."""


def at(seconds: float = 0.0) -> str:
    return format_timestamp(Clock.began_us + round(seconds * SECOND))


def timed(reading: dict[str, Any]) -> dict[str, Any]:
    return {name: at(value) if isinstance(value, At) else value for name, value in reading.items()}


def arrow(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


class Asked:
    """A server with two tables and three queries, and the readings that it has acknowledged."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.http = httpx.Client(base_url=server.url, timeout=240)
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self.started_with = server.process.pid

    def prepare(self) -> None:
        for statement in (
            "CREATE TABLE probes (id INT PRIMARY KEY, room TEXT, reading STREAM (ppm DOUBLE, n INT)) "
            "WITH (time = 'valid', retention = '1 DAY')",
            "INSERT INTO probes VALUES (1, 'cellar', NULL), (2, 'roof', NULL)",
            "CREATE TABLE keepers (room TEXT PRIMARY KEY, keeper TEXT)",
            "CREATE QUERY everything AS SELECT id, ppm, n FROM probes BEGIN (LAST 100000 ROWS)",
            "CREATE QUERY alarm AS SELECT id, ppm FROM probes WHERE ppm > 35 BEGIN (LAST 100000 ROWS)",
        ):
            assert self.sql(statement).status_code == 200, statement

    def sql(self, text: str, params: Any = None) -> httpx.Response:
        return self.http.post("/v1/sql", json={"sql": text, **({} if params is None else {"params": params})})

    def push(self, readings: Any, table: str = "probes", **headers: str) -> httpx.Response:
        return self.http.post(f"/v1/tables/{table}/readings", json=readings, headers=headers)

    def push_raw(self, body: Any, media_type: str, **headers: str) -> httpx.Response:
        return self.http.post(
            "/v1/tables/probes/readings", content=body, headers={"Content-Type": media_type, **headers}
        )

    def accept(self, *readings: dict[str, Any]) -> None:
        """Readings that must be taken, and are there from now on."""
        answer = self.push(list(readings))
        assert answer.status_code == 200 and answer.json()["accepted"] == len(readings), answer.text
        self.rows.update((r["id"], r.get("ppm"), r.get("n")) for r in readings)

    def answer(self, query: str) -> Counter[tuple[Any, ...]]:
        """A standing query's rows, after everything that was acknowledged."""
        found = self.sql(f"SELECT * FROM {query}")
        assert found.status_code == 200, found.text
        return Counter(tuple(row) for row in found.json()["rows"])

    def check_intact(self) -> None:
        assert self.server.process.poll() is None and self.server.process.pid == self.started_with
        assert self.http.get("/v1/health").json()["ready"] is True
        everything = self.answer("everything")
        assert everything == self.rows, f"lost: {self.rows - everything}, came: {everything - self.rows}"
        wanted = Counter((i, ppm) for i, ppm, _ in self.rows.elements() if isinstance(ppm, float) and ppm > 35)
        assert +Counter({row: n for row, n in self.answer("alarm").items() if isinstance(row[1], float)}) == wanted


def refused(answer: httpx.Response, condition: str, status: int) -> dict[str, Any]:
    """The one body of every error; gives it back."""
    assert answer.headers["content-type"] == "application/json", answer.text
    body = answer.json()
    assert body.keys() == {"error"} and body["error"].keys() == BODY_KEYS, body
    problem: dict[str, Any] = body["error"]
    assert (problem["condition"], answer.status_code) == (condition, status), problem
    assert problem["message"] and len(problem["sqlstate"]) == 5
    assert not [word for word in INSIDES if word in problem["message"]], problem["message"]
    assert len(problem["message"]) < 2000
    return problem
