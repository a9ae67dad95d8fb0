"""Metrics that stay few, a dashboard that names only what there is, and lines with their request and cycle."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.logs import JsonLines, TextLines, note_cycle, request_named
from penstock.server.routes.system import SERIES_MAX, Scrape, families, status_samples
from tests.security.conftest import World

ROOT = Path(__file__).parents[2]
METRICS = Path(__file__).parent / "metrics.json"
DASHBOARD = ROOT / "docs" / "grafana" / "penstock.json"
# Of sinks there are none in this test; their facts are those of penstock.sinks.
SINK = {"state": "running", "cycle": 3, "lag": 0, "rows": 1, "deliveries": 1, "failed": 0, "retries": 0, "gaps": 0}
_METRIC = re.compile(r"\bpenstock_[a-z0-9_]+")


def names_of(text: str) -> set[str]:
    return {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}


def render(status: dict[str, Any]) -> str:
    return generate_latest(Scrape(families(status_samples(status)))).decode()


def shapes_of(text: str) -> dict[str, list[Any]]:
    """The type and the names of the labels of each series, by its name."""
    return {
        sample.name: [family.type, sorted(sample.labels)]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def scraped(world: World) -> str:
    """What a server says that has taken in readings, refused some, and was asked and refused."""
    write = world.headers("write")
    world.http.post("/v1/tables/probes/readings", json=[{"id": 1, "value": 40}, {"id": 9, "value": 1}], headers=write)
    world.pipe.engine.drain()
    world.http.get("/v1/queries/hot/rows", headers=write)
    world.http.request("BREW", "/v1/tables", headers=write)
    world.http.get("/v1/tables")
    return world.http.get("/metrics", headers=world.headers("read")).text


def test_the_dashboard_names_only_metrics_that_there_are(scraped: str) -> None:
    known = names_of(scraped) | names_of(render({"sinks": {"out": SINK}}))
    board = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(asked) >= 20
    for expression in asked:
        for name in _METRIC.findall(expression):
            assert name in known, f"{name} in {expression}"
    for variable in board["templating"]["list"][1:]:
        assert set(_METRIC.findall(variable["query"])) <= known
    places = [panel["id"] for panel in board["panels"]]
    assert len(set(places)) == len(places)


def test_names_types_and_labels_of_metrics_stay(scraped: str) -> None:
    """Dashboards and alarms of users name them: one that is taken out or renamed is a line in the CHANGELOG."""
    sinks = render({"sinks": {"out": SINK}})
    assert shapes_of(scraped) | shapes_of(sinks) == json.loads(METRICS.read_text())


def test_the_page_about_metrics_names_only_those_that_there_are_and_none_is_missing(scraped: str) -> None:
    page = (ROOT / "docs" / "howto" / "observe.md").read_text()
    listed = set(re.findall(r"`(penstock_[a-z0-9_*]+)`", page)) - {"penstock_series_left_out"}
    for name in names_of(scraped):
        family = re.sub(r"_(bucket|count|sum)$", "", name)
        fits = [one for one in listed if re.fullmatch(one.replace("*", "[a-z0-9_]+"), family)]
        assert fits, f"{name} is not in observe.md"


def test_labels_are_of_things_that_are_few(scraped: str) -> None:
    labels = {name for line in scraped.splitlines() for name in re.findall(r'[{,]([a-z_]+)="', line)}
    few = {
        "table",
        "outcome",
        "method",
        "route",
        "status",
        "le",
        "query",
        "stream",
        "condition",
        "input",
        "service",
        "purpose",
    }
    assert labels <= few
    assert 'method="other"' in scraped and "BREW" not in scraped
    assert 'condition="sensor_not_found"' in scraped


def test_a_thousand_tables_have_no_more_series_than_the_most() -> None:
    text = render({"streams": {f"t{n}": {"accepted": n} for n in range(SERIES_MAX + 7)}})
    assert text.count("penstock_streams_accepted_total{") == SERIES_MAX
    assert "penstock_series_left_out 7.0" in text


def test_what_only_grows_is_a_counter_and_a_histogram_is_one_metric(scraped: str) -> None:
    types = dict(line.split()[2:4] for line in scraped.splitlines() if line.startswith("# TYPE"))
    assert types["penstock_streams_accepted_total"] == "counter"
    assert types["penstock_http_request_seconds"] == "histogram"
    for name, kind in types.items():
        assert (kind == "counter") == name.endswith("_total"), name
    counts = re.findall(r'request_seconds_bucket\{le="([^"]+)",route="/v1/tables"\} (\d+)', scraped)
    assert [int(count) for _, count in counts] == sorted(int(count) for _, count in counts)
    assert counts[-1][0] == "+Inf"


def record(message: str, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("penstock.test", logging.WARNING, "", 0, message, None, None)
    made.__dict__.update(more)
    return made


def test_a_line_has_its_request_and_cycle() -> None:
    note_cycle(41)
    with request_named("mine-1"):
        found = orjson.loads(JsonLines().format(record('disk "full"\nalmost', facts={"table": "probes"})))
        text = TextLines().format(record("disk full"))
    note_cycle(0)
    assert (found["request"], found["cycle"], found["table"]) == ("mine-1", 41, "probes")
    assert found["message"] == 'disk "full"\nalmost' and found["level"] == "WARNING" and found["at"].endswith("Z")
    assert "[mine-1 cycle 41]: disk full" in text


def test_a_failure_is_logged_with_its_request_and_without_its_secrets(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr("hashlib.scrypt", broken)
    sql = {"sql": "CREATE USER eve PASSWORD 'hush hush hush'"}
    caplog.handler.setFormatter(JsonLines())
    with caplog.at_level(logging.INFO):
        answer = world.http.post(
            "/v1/sql?note=hush", json=sql, headers={**world.headers("admin"), "X-Request-ID": "r1"}
        )
    assert answer.status_code == 500 and "fire" not in answer.text
    lines = [orjson.loads(line) for line in caplog.text.splitlines()]
    ours = [line for line in lines if line["logger"].startswith("penstock")]
    assert any(line["level"] == "ERROR" and "the disk is on fire" in line["error"] for line in ours)
    told = next(line for line in ours if line["logger"] == "penstock.requests")
    assert (told["status"], told["path"], told["user"]) == (500, "/v1/sql", "t_admin")
    assert all(line["request"] == "r1" for line in ours)
    assert "hush" not in str(ours) and world.tokens["admin"] not in str(ours)
