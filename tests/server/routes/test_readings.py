"""Readings in four formats, and what is refused before the database sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from tests.server.asgi import Http
from tests.server.fake import FakeDatabase

PATH = "/v1/tables/sensors/readings"
ROWS = [{"sensor_id": 1, "ppm": 37.5}, {"sensor_id": 2, "ppm": None}]


def arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


BODIES = {
    "application/json": b'[{"sensor_id": 1, "ppm": 37.5}, {"sensor_id": 2, "ppm": null}]',
    "application/x-ndjson": b'{"sensor_id": 1, "ppm": 37.5}\n\n{"sensor_id": 2, "ppm": null}\r\n',
    "application/vnd.apache.arrow.stream": arrow(pa.Table.from_pylist(ROWS)),
}


@pytest.mark.parametrize("media_type", BODIES)
def test_each_format_gives_the_same_readings(http: Http, database: FakeDatabase, media_type: str) -> None:
    response = http.post(PATH, content=BODIES[media_type], headers={"Content-Type": media_type + "; charset=utf-8"})
    assert response.json() == {"accepted": 2, "refused": [], "position": 2}
    assert database.readings == ROWS


def test_csv_stays_text_so_that_the_table_decides_what_it_means(http: Http, database: FakeDatabase) -> None:
    body = b'sensor_id,ppm,note\n007,37.5,""\n2,,"two\nlines"\n'
    assert http.post(PATH, content=body, headers={"Content-Type": "text/csv"}).json()["accepted"] == 2
    assert database.readings == [
        {"sensor_id": "007", "ppm": "37.5", "note": ""},
        {"sensor_id": "2", "ppm": None, "note": "two\nlines"},
    ]


def test_a_single_object_is_one_reading(http: Http, database: FakeDatabase) -> None:
    assert http.post(PATH, json={"sensor_id": 1, "ppm": 1}).json()["accepted"] == 1


def test_refused_readings_come_back_with_their_place(http: Http) -> None:
    response = http.post(PATH, json=[{"sensor_id": 1}, {"sensor_id": -1}])
    assert response.status_code == 200
    assert response.json() == {
        "accepted": 1,
        "refused": [{"index": 1, "condition": "sensor_not_found", "message": "no sensor -1"}],
        "position": 1,
    }


def test_a_repeat_with_the_same_key_is_harmless(http: Http, database: FakeDatabase) -> None:
    first = http.post(PATH, json=ROWS, headers={"Idempotency-Key": "k1"})
    again = http.post(PATH, json=ROWS, headers={"Idempotency-Key": "k1"})
    assert first.json() == again.json()
    assert len(database.readings) == 2
    assert http.post(PATH, json=ROWS, headers={"Idempotency-Key": "k" * 256}).status_code == 400


BAD = [
    ("application/json", b"[1]", "element 0"),
    ("application/json", b'"x"', "array of objects"),
    ("application/json", b'[{"a": NaN}]', "not JSON"),
    ("application/x-ndjson", b'{"a": 1}\n{"a": \n', "line 2"),
    ("application/x-ndjson", b'{"a": 1}\n3\n', "line 2"),
    ("text/csv", b"", "column names"),
    ("text/csv", b"a,b\n1\n", "not CSV"),
    ("text/csv", b"a,a\n1,2\n", "twice"),
    ("application/vnd.apache.arrow.stream", b"", "Arrow"),
    ("application/vnd.apache.arrow.stream", b"nonsense nonsense", "Arrow"),
    ("application/vnd.apache.arrow.stream", BODIES["application/vnd.apache.arrow.stream"][:200], "Arrow"),
]


@pytest.mark.parametrize(("media_type", "body", "says"), BAD)
def test_a_body_that_cannot_be_read_is_refused_as_a_whole(
    http: Http, database: FakeDatabase, media_type: str, body: bytes, says: str
) -> None:
    response = http.post(PATH, content=body, headers={"Content-Type": media_type})
    found = response.json()["error"]
    assert (response.status_code, found["condition"]) == (400, "invalid_body"), found
    assert says in found["message"]
    assert database.readings == []


@pytest.mark.parametrize(
    "headers", [{"Content-Type": "text/plain"}, {"Content-Type": "application/json", "Content-Encoding": "gzip"}]
)
def test_what_is_not_understood_is_415(http: Http, headers: dict[str, str]) -> None:
    assert http.post(PATH, content=b"[]", headers=headers).status_code == 415


def test_a_declared_length_above_the_limit_is_refused_unread(http: Http) -> None:
    headers = {"Content-Type": "application/json", "Content-Length": str(100 << 20)}
    response = http.post(PATH, content=b"", headers=headers)
    assert response.status_code == 413
    assert response.json()["error"]["condition"] == "body_too_large"


def test_an_undeclared_length_is_cut_off_at_the_limit(http: Http, database: FakeDatabase) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield bytes(1 << 20)

    response = http.post(PATH, content=endless(), headers={"Content-Type": "application/json"})
    assert response.status_code == 413
    assert database.pushes == []


def test_each_way_in_counts_what_came_and_what_was_refused_one_by_one_or_as_a_whole(
    http: Http, database: FakeDatabase
) -> None:
    url = "/v1/tables/sensors/readings"
    http.post(url, json=[{"sensor_id": 1}, {"sensor_id": -1}, {"sensor_id": -2}])
    http.post(url, content=b"{nonsense", headers={"Content-Type": "application/json"})
    http.post(url, content=b"x", headers={"Content-Type": "text/html"})
    http.post("/v1/tables/none/readings", json=[{"sensor_id": 1}])
    counts = database.ways_in["http"].as_dict()
    assert (counts["messages"], counts["accepted"]) == (1, 1) and counts["bytes"] > 10
    assert counts["refused"] == {
        "sensor_not_found": 2,
        "invalid_body": 1,
        "unsupported_media_type": 1,
        "table_not_found": 1,
    }
    assert database.ways_in["websocket"].as_dict()["messages"] == 0
