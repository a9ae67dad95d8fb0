"""Every refusal has the same body."""

from __future__ import annotations

import logging

import httpx
import pytest

from penstock.errors import CONDITIONS
from tests.server.asgi import Http
from tests.server.fake import FakeDatabase

KEYS = {"condition", "sqlstate", "message", "hint", "line", "column", "length"}


def refusal(response: httpx.Response, condition: str) -> dict[str, object]:
    body = response.json()["error"]
    assert set(body) == KEYS
    assert body["condition"] == condition
    assert response.status_code == CONDITIONS[condition].status
    assert body["sqlstate"] == CONDITIONS[condition].sqlstate
    return body


def test_sql_errors_say_where(http: Http) -> None:
    body = refusal(http.post("/v1/sql", json={"sql": "SELECT pmp FROM sensors"}), "column_not_found")
    assert (body["line"], body["column"], body["length"]) == (1, 8, 3)
    assert body["hint"] == 'did you mean "ppm"?'


def test_an_unknown_path_is_refused_in_the_same_shape(http: Http) -> None:
    refusal(http.get("/v2/nothing"), "not_found")


def test_a_wrong_method_says_which_are_allowed(http: Http) -> None:
    response = http.get("/v1/sql")
    refusal(response, "method_not_allowed")
    assert response.headers["allow"] == "POST"


def test_a_wrong_parameter_is_named(http: Http) -> None:
    body = refusal(http.get("/v1/queries/gas_alarm/rows?limit=many"), "invalid_parameter")
    assert "limit" in str(body["message"])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"sql": 5}', b"{}", b'{"sql": "SELECT 1", "parms": []}'])
def test_a_body_that_is_no_request_is_refused(http: Http, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    refusal(http.post("/v1/sql", content=content, headers=headers), "invalid_body")


def test_sql_must_come_as_json_so_that_no_web_page_can_send_it_unasked(http: Http, database: FakeDatabase) -> None:
    response = http.post("/v1/sql", content=b'{"sql": "DROP TABLE x"}', headers={"Content-Type": "text/plain"})
    refusal(response, "unsupported_media_type")
    assert database.statements == []


def test_a_surprise_is_logged_and_not_shown(
    http: Http, database: FakeDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    database.fail = RuntimeError("secret detail")
    with caplog.at_level(logging.ERROR, "penstock.server"):
        response = http.post("/v1/sql", json={"sql": "SELECT 1"})
    refusal(response, "internal_error")
    assert "secret detail" not in response.text
    assert "secret detail" in caplog.text


def test_names_that_do_not_exist_are_404(http: Http) -> None:
    refusal(http.get("/v1/queries/none/rows"), "query_not_found")
    refusal(http.get("/v1/queries/none/events"), "query_not_found")
    refusal(http.get("/v1/tables/none"), "table_not_found")
    refusal(http.post("/v1/tables/none/readings", json=[{"sensor_id": 1}]), "table_not_found")


def test_a_server_that_is_starting_says_so_everywhere(http: Http) -> None:
    lifecycle = http.app.state.context.lifecycle
    lifecycle.ready, lifecycle.reason = False, "starting Spark"
    response = http.post("/v1/sql", json={"sql": "SELECT 1"})
    body = refusal(response, "not_ready")
    assert "starting Spark" in str(body["message"])
    assert response.headers["retry-after"]
    health = http.get("/v1/health")
    assert health.status_code == 503
    assert health.json() == {"ready": False, "reason": "starting Spark", "details": {}}
