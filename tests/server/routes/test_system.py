"""Metrics, status, the catalog, backup and the API's own description."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.errors import PenstockError, error
from penstock.server.models import QueryChange
from penstock.server.routes.queries import change_statements
from penstock.server.routes.system import Scrape, families, status_samples
from penstock.settings import Settings
from penstock.views.results import Health
from tests.server.asgi import Http
from tests.server.fake import FakeDatabase


def test_health_is_503_with_the_reason_when_not_ready(http: Http, database: FakeDatabase) -> None:
    assert http.get("/v1/health").json() == {"ready": True, "reason": "ready", "details": {"cycle": 7}}
    database.health_now = Health(False, "Spark is being restarted")
    answer = http.get("/v1/health")
    assert (answer.status_code, answer.json()["reason"]) == (503, "Spark is being restarted")


def test_metrics_show_status_and_requests(http: Http) -> None:
    http.post("/v1/tables/sensors/readings", json=[{"sensor_id": 1}, {"sensor_id": -1}])
    http.get("/v1/nothing/of/the/kind")
    answer = http.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.text
    for line in (
        "# TYPE penstock_cycle gauge",
        "penstock_cycle 7.0",
        "penstock_ready 1.0",
        'penstock_tables_rows_per_s{table="sensors"} 1.5',
        'penstock_queries_rows{query="odd \\"name\\""} 2.0',
        "# TYPE penstock_http_requests_total counter",
        'penstock_http_requests_total{method="POST",route="/v1/tables/{table}/readings",status="200"} 1.0',
        'penstock_http_requests_total{method="GET",route="none",status="404"} 1.0',
        'penstock_http_readings_total{outcome="accepted",table="sensors"} 1.0',
        'penstock_http_readings_total{outcome="refused",table="sensors"} 1.0',
        "penstock_http_subscribers 0.0",
    ):
        assert line in text.splitlines(), text
    names = [family.name for family in text_string_to_metric_families(text)]
    assert len(names) == len(set(names)), "a metric of one name stands together"


def test_a_metric_of_one_name_stands_together() -> None:
    status = {"tables": {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": float("nan")}}}
    lines = generate_latest(Scrape(families(status_samples(status)))).decode().splitlines()
    assert [line for line in lines if not line.startswith("# HELP")] == [
        "# TYPE penstock_tables_x gauge",
        'penstock_tables_x{table="a"} 1.0',
        'penstock_tables_x{table="b"} 3.0',
        "# TYPE penstock_tables_y gauge",
        'penstock_tables_y{table="a"} 2.0',
        'penstock_tables_y{table="b"} NaN',
    ]


def test_the_catalog_can_be_read(http: Http) -> None:
    assert http.get("/v1/tables").json()["tables"][0]["name"] == "sensors"
    assert http.get("/v1/tables/sensors/sensors").json()["sensors"][0]["values"] == {
        "sensor_id": 1,
        "location": "north gate",
        "built": "2020-01-01T00:00:00.000000Z",
        "cost": "1.10",
    }
    assert http.get("/v1/queries").json()["queries"][0]["name"] == "gas_alarm"
    assert http.get("/v1/queries/gas_alarm").json()["state"] == "running"
    assert http.get("/v1/status").json()["cycle"] == 7


def test_queries_are_registered_changed_and_dropped(http: Http, database: FakeDatabase) -> None:
    answer = http.post("/v1/queries", json={"queries": [{"name": "a", "sql": "SELECT 1"}], "on_error": "rest"})
    assert (answer.status_code, answer.json()) == (201, {"queries": [{"name": "a", "error": None}]})
    assert http.post("/v1/queries", json={"queries": []}).status_code == 400
    assert http.post("/v1/queries", json={"queries": [], "on_error": "maybe"}).status_code == 400
    changed = http.request("PATCH", "/v1/queries/a", json={"begin": "NOW - 1 HOUR", "paused": True})
    assert changed.json()["name"] == "a"
    assert http.request("DELETE", "/v1/queries/a?cascade=true").status_code == 204
    assert [sql for sql, _ in database.statements] == [
        'ALTER QUERY "a" SET BEGIN (NOW - 1 HOUR)',
        'ALTER QUERY "a" PAUSE',
        'DROP QUERY "a" CASCADE',
    ]


def test_a_bad_query_among_many_says_which_one_it_is(http: Http) -> None:
    wanted = [{"name": "a", "sql": "SELECT ppm"}, {"name": "b", "sql": "SELECT pmp", "description": "hot"}]
    answer = http.post("/v1/queries", json={"queries": wanted})
    problem = answer.json()["error"]
    assert (answer.status_code, problem["line"], problem["column"]) == (400, 1, 8)
    assert problem["message"].startswith('query "b" (2 of 2)')


def test_whoever_registers_a_query_owns_it(http: Http, database: FakeDatabase) -> None:
    http.post("/v1/queries", json={"queries": [{"name": "a", "sql": "SELECT 1"}]}, headers={"Penstock-User": "ada"})
    http.post("/v1/sql", json={"sql": "CREATE QUERY b AS SELECT 1"}, headers={"Penstock-User": " "})
    assert database.owners == ["ada", None]


def test_a_query_is_described_through_statements() -> None:
    change = QueryChange(description="it's hot", owner="a'b", strategy="partial")
    assert change_statements("q", change) == [
        """COMMENT ON QUERY "q" IS 'it''s hot'""",
        """ALTER QUERY "q" OWNER TO 'a''b'""",
        'ALTER QUERY "q" SET STRATEGY partial',
    ]


def test_a_change_cannot_smuggle_in_a_statement() -> None:
    assert change_statements('a"b', QueryChange(end="NOW")) == ['ALTER QUERY "a""b" SET END (NOW)']
    for text in ("NOW); DROP TABLE x; --", "NOW -- x", "NOW /* x */"):
        with pytest.raises(PenstockError, match="is not a time"):
            change_statements("a", QueryChange(begin=text))
    with pytest.raises(PenstockError, match="nothing to change"):
        change_statements("a", QueryChange())


def test_invoke_passes_its_cycle_and_limit_on(http: Http) -> None:
    answer = http.get("/v1/queries/gas_alarm/rows?as_of=5&limit=1").json()
    assert (answer["cycle"], len(answer["rows"])) == (5, 1)
    whole = http.get("/v1/queries/gas_alarm/rows").json()["rows"]
    assert http.get("/v1/queries/gas_alarm/rows?limit=1&offset=1").json()["rows"] == whole[1:2]
    assert http.get("/v1/queries/gas_alarm/rows?offset=-1").json()["error"]["condition"] == "invalid_parameter"


def test_invoke_as_of_a_time_passes_it_on_as_text(http: Http, database: FakeDatabase) -> None:
    assert http.get("/v1/queries/gas_alarm/rows", params={"as_of": "NOW - 5 MINUTES"}).status_code == 200
    assert http.get("/v1/queries/gas_alarm/rows?as_of=2026-01-05T12:00:00Z").status_code == 200
    assert database.asked_as_of == ["NOW - 5 MINUTES", "2026-01-05T12:00:00Z"]


def test_a_backup_needs_a_new_absolute_path(http: Http, database: FakeDatabase, tmp_path: Path) -> None:
    target = str(tmp_path / "copy")
    assert http.post("/v1/backup", json={"target": target}).json() == {"target": target}
    assert http.post("/v1/backup", json={"target": target}).json()["error"]["condition"] == "already_exists"
    assert http.post("/v1/backup", json={"target": "copy"}).json()["error"]["condition"] == "invalid_parameter"
    (tmp_path / "file").touch()
    for impossible in ("a\0b", "x" * 300, "file/copy"):
        answer = http.post("/v1/backup", json={"target": f"{tmp_path}/{impossible}"})
        assert (answer.status_code, answer.json()["error"]["condition"]) == (400, "invalid_parameter"), answer.text
    assert database.backups == [tmp_path / "copy"]


class FullDisk(FakeDatabase):
    """The first backup finds no room."""

    has_room = False

    def backup(self, target: Path, link: bool = False) -> list[str]:
        if self.has_room:
            return super().backup(target, link)
        self.has_room = True
        assert not target.exists()  # the database writes aside and renames, or takes its half away
        raise error("engine_failed", detail="the disk is full")


def test_a_backup_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    http = Http(FullDisk(), Settings())
    answer = http.post("/v1/backup", json={"target": f"{tmp_path}/copy"})
    assert answer.json()["error"]["condition"] == "engine_failed"
    assert list(tmp_path.iterdir()) == []
    assert http.post("/v1/backup", json={"target": f"{tmp_path}/copy"}).status_code == 200
    http.close()


def test_the_api_describes_itself_with_examples(http: Http) -> None:
    document = http.get("/openapi.json").json()
    calls = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert calls == {
        ("POST", "/v1/sql"),
        ("GET", "/v1/statements"),
        ("DELETE", "/v1/statements/{id}"),
        ("POST", "/v1/tables/{table}/readings"),
        ("GET", "/v1/queries"),
        ("POST", "/v1/queries"),
        ("GET", "/v1/queries/{name}"),
        ("PATCH", "/v1/queries/{name}"),
        ("DELETE", "/v1/queries/{name}"),
        ("GET", "/v1/queries/{name}/rows"),
        ("GET", "/v1/queries/{name}/events"),
        ("GET", "/v1/tables"),
        ("GET", "/v1/tables/{table}"),
        ("GET", "/v1/tables/{table}/sensors"),
        ("GET", "/v1/health"),
        ("GET", "/v1/status"),
        ("GET", "/metrics"),
        ("POST", "/v1/backup"),
        ("POST", "/api/v2/write"),
        ("POST", "/write"),
        ("POST", "/query"),
        ("GET", "/ping"),
        ("GET", "/v1/session"),
        ("POST", "/v1/session"),
        ("DELETE", "/v1/session"),
    }
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            assert call["summary"], path
            if method in ("post", "patch"):
                for media in call["requestBody"]["content"].values():
                    assert "schema" in media
                assert "example" in next(iter(call["requestBody"]["content"].values()))
    answer = document["paths"]["/v1/sql"]["post"]["responses"]
    assert set(answer["200"]["content"]) == {
        "application/json",
        "text/csv",
        "application/x-ndjson",
        "application/vnd.apache.arrow.stream",
    }
    assert "4XX" in answer
    assert "422" not in str(document["paths"])
    for name in _references(document):
        assert name in document["components"]["schemas"]


def _references(part: object) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"].rsplit("/", 1)[1]} if isinstance(part.get("$ref"), str) else set()
        return own.union(*(_references(value) for value in part.values()))
    if isinstance(part, list):
        return set().union(*(_references(value) for value in part))
    return set()
