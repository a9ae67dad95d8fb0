"""Limits on rate, rows and subscribers; headers on every answer; origins that the setting names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from penstock.server.http.access import CLIENTS_MAX, RateLimits
from penstock.settings import Settings
from tests.server.asgi import Http
from tests.server.fake import FakeDatabase

Opener = Callable[..., Http]


@pytest.fixture
def client() -> Iterator[Opener]:
    opened: list[Http] = []

    def open_client(**settings: object) -> Http:
        opened.append(Http(FakeDatabase(), Settings(**settings)))  # type: ignore[arg-type]
        return opened[-1]

    yield open_client
    for http in opened:
        http.close()


def test_a_bucket_lets_a_burst_pass_and_then_the_rate() -> None:
    now = [0.0]
    rates = RateLimits(10, 5, lambda: now[0])
    assert [rates.take("a") for _ in range(5)] == [0.0] * 5
    assert rates.take("a") == pytest.approx(0.1)
    assert rates.take("b") == 0.0
    now[0] = 0.1
    assert rates.take("a") == 0.0 and rates.take("a") > 0
    now[0] = 1000.0
    assert [rates.take("a") for _ in range(6)].count(0.0) == 5


def test_a_million_clients_do_not_fill_the_memory() -> None:
    rates = RateLimits(10, 5, lambda: 0.0)
    for number in range(CLIENTS_MAX + 100):
        rates.take(str(number))
    assert len(rates._buckets) == CLIENTS_MAX


def test_a_client_that_asks_too_often_is_told_to_wait(client: Opener) -> None:
    # So slow that the bucket does not fill while the test runs.
    http = client(requests_per_s=0.0001)
    assert http.get("/v1/tables").status_code == 200
    answer = http.get("/v1/tables")
    assert (answer.status_code, answer.json()["error"]["condition"]) == (429, "rate_limited")
    assert answer.headers["retry-after"] == "1"


def test_wrong_tokens_count_against_the_address(client: Opener) -> None:
    http = client(requests_per_s=0.0001, token="right-right-right-right-right-right")
    wrong = {"Authorization": "Bearer wrong"}
    assert [http.get("/v1/tables", headers=wrong).status_code for _ in range(3)] == [401, 429, 429]
    assert (
        http.get("/v1/tables", headers={"Authorization": "Bearer right-right-right-right-right-right"}).status_code
        == 200
    )


def test_a_push_has_so_many_readings_at_most(client: Opener) -> None:
    http = client(push_max_rows=2)
    rows = [{"sensor_id": 1}] * 3
    answer = http.post("/v1/tables/sensors/readings", json=rows)
    assert (answer.status_code, answer.json()["error"]["condition"]) == (413, "too_many_rows")
    assert http.post("/v1/tables/sensors/readings", json=rows[:2]).status_code == 200


def test_a_small_body_of_many_rows_is_refused_before_it_unfolds(client: Opener) -> None:
    table = pa.table({"sensor_id": pa.nulls(50_000_000)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    assert len(body) < 1_000_000
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    answer = client().post("/v1/tables/sensors/readings", content=body, headers=headers)
    assert answer.json()["error"]["condition"] == "too_many_rows"


def test_one_subscriber_too_many_is_refused(client: Opener) -> None:
    http = client(subscribers_max=0)
    answer = http.get("/v1/queries/gas_alarm/events")
    assert (answer.status_code, answer.json()["error"]["condition"]) == (429, "limit_reached")


def test_every_answer_is_closed_to_frames_and_to_guessing(client: Opener) -> None:
    http = client(token="right-right-right-right-right-right")
    for path, status in (("/v1/health", 200), ("/v1/tables", 401), ("/sign-in", 200)):
        answer = http.get(path)
        assert answer.status_code == status
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert len(answer.headers["x-request-id"]) == 16
        assert "server" not in answer.headers
    assert client().get("/v1/tables").headers["content-security-policy"].startswith("default-src 'none'")


def test_a_request_keeps_a_sane_name_and_gets_one_instead_of_a_forged_one(client: Opener) -> None:
    http = client()
    assert http.get("/v1/tables", headers={"X-Request-ID": "abc-1"}).headers["x-request-id"] == "abc-1"
    for forged in ("a b", "x" * 65, 'a"b', ""):
        assert http.get("/v1/tables", headers={"X-Request-ID": forged}).headers["x-request-id"] != forged


def test_other_origins_are_closed_unless_the_setting_names_them(client: Opener) -> None:
    page, other = "https://board.example", "https://evil.example"
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    closed = client(token="right-right-right-right-right-right")
    answer = closed.request("OPTIONS", "/v1/sql", headers={"Origin": page, **asked})
    assert "access-control-allow-origin" not in answer.headers
    opened = client(token="right-right-right-right-right-right", cors_origins=f"{page}, https://second.example/")
    answer = opened.request("OPTIONS", "/v1/sql", headers={"Origin": page, **asked})
    assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == page
    assert "access-control-allow-credentials" not in answer.headers
    answer = opened.request("OPTIONS", "/v1/sql", headers={"Origin": other, **asked})
    assert "access-control-allow-origin" not in answer.headers
    token = {"Authorization": "Bearer right-right-right-right-right-right"}
    answer = opened.get("/v1/tables", headers={"Origin": page, **token})
    assert answer.headers["access-control-allow-origin"] == page


def test_where_nobody_signs_in_only_named_origins_may_call(client: Opener) -> None:
    http = client(cors_origins="https://board.example")
    assert http.get("/v1/tables", headers={"Origin": "https://board.example"}).status_code == 200
    assert http.get("/v1/tables", headers={"Origin": "https://evil.example"}).status_code == 401
    everybody = client(cors_origins="*")
    assert everybody.get("/v1/tables", headers={"Origin": "https://evil.example"}).status_code == 401
