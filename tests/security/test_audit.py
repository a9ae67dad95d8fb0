"""A line per change: who, what, when, for which request; and never a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from penstock.security.audit import Audit
from tests.security.conftest import World


def lines_of(world: World) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (world.pipe.folder / "audit" / "audit.jsonl").read_bytes().splitlines()]


def test_every_change_is_a_line_with_who_and_for_which_request(world: World) -> None:
    sql = "CREATE QUERY a AS SELECT value FROM probes; CREATE QUERY b AS SELECT value FROM probes; SHOW TABLES"
    headers = {**world.headers("write"), "X-Request-ID": "my-request.7"}
    before = len(lines_of(world))
    answer = world.http.post("/v1/sql", json={"sql": sql}, headers=headers)
    assert answer.status_code == 200 and answer.headers["x-request-id"] == "my-request.7"
    assert world.http.post("/v1/sql", json={"sql": "DROP TABLE probes"}, headers=headers).status_code == 403
    assert world.http.request("DELETE", "/v1/queries/a", headers=headers).status_code == 204
    body = {
        "queries": [{"name": "c", "sql": "SELECT value FROM probes"}, {"name": "d", "sql": "SELECT"}],
        "on_error": "rest",
    }
    assert world.http.post("/v1/queries", json=body, headers=headers).status_code == 201
    found = lines_of(world)[before:]
    assert [(line["action"], line["name"], line["outcome"]) for line in found] == [
        ("CREATE QUERY", "a", "done"),
        ("CREATE QUERY", "b", "done"),
        ("DROP TABLE", "probes", "forbidden"),
        ("DROP QUERY", "a", "done"),
        ("CREATE QUERY", "c", "done"),
        ("CREATE QUERY", "d", "syntax_error"),
    ]
    for line in found:
        assert (line["who"], line["role"], line["via"], line["from"], line["request"]) == (
            "t_write",
            "write",
            "token t_write",
            "127.0.0.1",
            "my-request.7",
        )
        assert line["at"].endswith("Z")


def test_no_secret_is_in_the_audit(world: World) -> None:
    admin = world.headers("admin")
    statements = [
        "CREATE USER eve PASSWORD 'hush hush hush'",
        "ALTER USER eve PASSWORD 'hush hush hush 2'",
        "CREATE USER eve PASSWORD 'hush hush hush'",
    ]
    for sql in statements:
        world.http.post("/v1/sql", json={"sql": sql}, headers=admin)
    token = world.http.post("/v1/sql", json={"sql": "CREATE TOKEN t FOR eve"}, headers=admin).json()["rows"][0][1]
    world.http.post("/v1/session", json={"user": "hush hush hush", "password": "eve"})
    world.http.post("/v1/session", json={"user": "eve", "password": "hush hush"})
    text = (world.pipe.folder / "audit" / "audit.jsonl").read_text()
    assert "hush" not in text and token not in text
    outcomes = [(line["action"], line["name"], line["outcome"]) for line in lines_of(world)[-6:]]
    assert outcomes == [
        ("CREATE USER", "eve", "done"),
        ("ALTER USER", "eve", "done"),
        ("CREATE USER", "eve", "already_exists"),
        ("CREATE TOKEN", "t", "done"),
        ("SIGN IN", None, "unauthorized"),
        ("SIGN IN", "eve", "unauthorized"),
    ]


def test_the_files_are_rotated(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("penstock.security.audit.FILE_MAX_BYTES", 1000)
    audit = Audit(tmp_path)
    for number in range(100):
        audit.note("CREATE TABLE", [f"t{number}"])
    audit.close()
    files = sorted((tmp_path / "audit").iterdir())
    assert len(files) == 11 and all(f.stat().st_size <= 1000 for f in files)
    assert b'"t99"' in (tmp_path / "audit" / "audit.jsonl").read_bytes()
