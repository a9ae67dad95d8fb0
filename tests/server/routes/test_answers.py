"""Answers in four formats."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import httpx
import pyarrow as pa
import pytest

from penstock.server.http.encode import choose_format, type_name
from penstock.types import parse_type
from penstock.views.results import Behind, Result
from tests.server.asgi import Http
from tests.server.fake import FakeDatabase

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
WIDE = pa.table(
    {
        "n": pa.array([1, None], pa.int32()),
        "big": pa.array([2**60, -1], pa.int64()),
        "x": pa.array([float("nan"), float("-inf")]),
        "ok": [True, None],
        "text": ['say "hi", you', ""],
        "ts": pa.array([NOON, None], pa.timestamp("us", tz="UTC")),
        "money": pa.array([Decimal("1.10"), None], pa.decimal128(10, 2)),
        "raw": pa.array([b"\x00\xff", None], pa.binary()),
        "list": pa.array([[1.5, None], None], pa.list_(pa.float64())),
        "part": pa.array(
            [{"at": NOON, "v": float("inf")}, None],
            pa.struct([("at", pa.timestamp("us", tz="UTC")), ("v", pa.float64())]),
        ),
    }
)


def ask(http: Http, accept: str | None = None) -> httpx.Response:
    headers = {"Accept": accept} if accept else {}
    response = http.post("/v1/sql", json={"sql": "SELECT 1", "params": [35]}, headers=headers)
    assert response.status_code == 200, response.text
    return response


def test_json_has_columns_rows_and_the_cycle_it_stands_for(http: Http, database: FakeDatabase) -> None:
    response = ask(http)
    assert response.json() == {
        "columns": [{"name": "location", "type": "TEXT"}, {"name": "ppm", "type": "DOUBLE"}],
        "rows": [["north gate", 37.5], ["pier", 41.0]],
        "cycle": 7,
        "now": "2023-11-14T22:13:20.000000Z",
        "complete_from": None,
        "final_to": None,
        "behind": None,
        "done": None,
        "notices": [],
    }
    assert database.statements == [("SELECT 1", [35])]


def test_an_answer_says_in_every_format_how_far_its_query_stands_behind(http: Http, database: FakeDatabase) -> None:
    database.result = replace(database.result, behind=Behind(3, 1200, 2.5))
    told = {"cycle": 3, "rows": 1200, "seconds": 2.5}
    assert ask(http).json()["behind"] == told
    assert json.loads(ask(http, "text/csv").headers["penstock-behind"]) == told


def test_parameters_may_have_names(http: Http, database: FakeDatabase) -> None:
    http.post("/v1/sql", json={"sql": "SELECT :x", "params": {"x": 1}})
    assert database.statements == [("SELECT :x", {"x": 1})]


def test_every_type_has_a_json_form(http: Http, database: FakeDatabase) -> None:
    database.result = Result(WIDE)
    body = ask(http).json()
    assert body["rows"] == [
        [1, 2**60, "NaN", True, 'say "hi", you', "2026-01-05T12:00:00.000000Z", "1.10", "AP8=", [1.5, None],
         {"at": "2026-01-05T12:00:00.000000Z", "v": "Infinity"}],
        [None, -1, "-Infinity", None, "", None, None, None, None, None],
    ]  # fmt: skip


def test_csv_keeps_null_and_empty_text_apart(http: Http, database: FakeDatabase) -> None:
    database.result = Result(WIDE, cycle=9, notices=("grün",))
    response = ask(http, "text/csv")
    assert response.headers["content-type"].startswith("text/csv")
    assert response.headers["penstock-cycle"] == "9"
    lines = response.text.splitlines()
    assert len(lines) == 3
    assert '"say ""hi"", you","2026-01-05T12:00:00.000000Z","1.10","AP8=","[1.5,null]"' in lines[1]
    assert lines[2] == ',-1,-inf,,"",,,,,'


def test_ndjson_is_one_object_a_row(http: Http, database: FakeDatabase) -> None:
    database.result = Result(pa.table([[1, 2], [3, 4]], names=["ppm", "ppm"]))
    lines = ask(http, "application/x-ndjson").text.splitlines()
    assert [json.loads(line) for line in lines] == [{"ppm": 1, "ppm_2": 3}, {"ppm": 2, "ppm_2": 4}]


def test_arrow_carries_types_and_facts(http: Http, database: FakeDatabase) -> None:
    database.result = Result(WIDE, cycle=9, now_us=1, complete_from_us=0)
    body = ask(http, "application/vnd.apache.arrow.stream").content
    table = pa.ipc.open_stream(body).read_all()
    assert table.schema.equals(WIDE.schema)
    facts = json.loads(table.schema.metadata[b"penstock"])
    assert facts["cycle"] == 9
    assert facts["complete_from"] == "1970-01-01T00:00:00.000000Z"


@pytest.mark.parametrize("accept", ["application/json", "text/csv", "application/x-ndjson"])
def test_an_empty_answer_is_an_answer(http: Http, database: FakeDatabase, accept: str) -> None:
    database.result = Result(WIDE.slice(0, 0))
    ask(http, accept)
    database.result = Result(pa.table({}), done="CREATE TABLE")
    ask(http, accept)


def test_the_client_ranks_formats_by_quality() -> None:
    assert choose_format(None) == "application/json"
    assert choose_format("*/*") == "application/json"
    assert choose_format("text/html, text/csv;q=0.8, */*;q=0.1") == "text/csv"
    assert choose_format("text/csv;q=0, */*") == "application/json"


def test_a_format_nobody_speaks_is_refused(http: Http, database: FakeDatabase) -> None:
    response = http.post("/v1/sql", json={"sql": "DROP TABLE x"}, headers={"Accept": "image/png"})
    assert response.json()["error"]["condition"] == "unsupported_media_type"
    assert database.statements == [], "nothing runs whose answer cannot be delivered"


def test_type_names_read_back_as_types() -> None:
    for field in WIDE.schema:
        assert parse_type(type_name(field.type)).to_arrow() == field.type
