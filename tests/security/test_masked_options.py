"""Secrets in options, addresses and settings: used, and shown nowhere."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock.catalog.secrets import is_secret, secrets_of, shown_address, shown_options, without
from penstock.sensors.base import END, Reading, Sensor
from penstock.sensors.registry import BUILT_IN
from penstock.sinks.registry import KINDS
from penstock.statements.running_statements import shortened
from tests.security.conftest import World

SECRET = (
    "password",
    "db_passwd",
    "pwd",
    "passphrase",
    "secret",
    "client_secret",
    "token",
    "api_key",
    "apikey",
    "access-key",
)
SECRET += ("private_key", "credential", "credentials", "authorization", "auth", "AccountKey", "signing_key", "key")
PLAIN = (
    "password_file",
    "token_env",
    "keepalive",
    "monkey",
    "author",
    "keys_per_page",
    "session_expiry",
    "url",
    "topic",
)


class Leaky(Sensor):
    """A sensor that says too much when it fails."""

    def init(self) -> None:
        raise ConnectionError(f"cannot sign in at {self.address} with {dict(self.options)}")

    def read(self) -> Reading:
        return END


def test_options_that_sound_like_secrets_are_masked_and_others_are_not() -> None:
    assert [name for name in SECRET if not is_secret(name)] == []
    assert [name for name in PLAIN if is_secret(name)] == []
    shown = shown_options(
        {"dsn": "postgresql://u:canary@h/d?api_key=canary&x=1", "header": "Authorization: Bearer canary"}
    )
    assert "canary" not in str(shown) and "x=1" in shown["dsn"]


def test_options_of_our_own_that_name_columns_or_files_are_shown() -> None:
    """`key` is the columns of a PostgreSQL sink, and the file of a client certificate's key."""
    assert shown_options({"key": "id, place"}, plain={"key"}) == {"key": "id, place"}
    declared = {option.name for each in (*BUILT_IN, *KINDS.values()) for option in each.options}
    assert {name for name in declared if is_secret(name)} == {"password", "secret", "token", "key"}


def test_no_role_reads_a_secret_of_a_stream_type_a_sink_or_an_address(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    admin = world.headers("admin")

    def run(sql: str, role: str = "admin") -> Any:
        return world.http.post("/v1/sql", json={"sql": sql}, headers=world.headers(role))

    name = f"{Leaky.__module__}:{Leaky.__qualname__}"
    caplog.set_level(logging.DEBUG)
    assert (
        run(
            f"CREATE STREAM TYPE leaky AS (v DOUBLE) USING python OPTIONS (class '{name}', api_key 'canary1', key 'canary2')"
        ).status_code
        == 200
    )
    assert run("CREATE TABLE leaks (id INT PRIMARY KEY, s STREAM leaky) WITH (always_on = true)").status_code == 200
    assert run("INSERT INTO leaks VALUES (1, 'https://me:canary3@127.0.0.1/x?token=canary4')").status_code == 200
    assert (
        run(
            "CREATE SINK out FOR hot TO postgres (url = 'postgresql://u:canary5@127.0.0.1:9/d', password = 'canary6',"
            " table = 't', key = 'id')"
        ).status_code
        == 200
    )
    while not (found := world.db.sensors("leaks"))[0]["last_error"]:
        world.db._stopped.wait(0.01)
    texts = [str(found)]
    for statement in (
        "SHOW SINKS",
        "SHOW STREAM TYPES",
        "SHOW SETTINGS",
        "SHOW INPUTS",
        "SHOW SENSORS",
        "DESCRIBE leaks",
        "EXPLAIN SELECT * FROM leaks",
    ):
        answer = run(statement, "read")
        assert answer.status_code == 200, answer.text
        texts.append(answer.text)
    for path in ("/v1/tables", "/v1/tables/leaks", "/v1/tables/leaks/sensors", "/v1/queries", "/v1/status", "/metrics"):
        texts.append(world.http.get(path, headers=admin).text)
    texts += [str(world.db.system.table(f"penstock.{name}").to_pylist()) for name in ("sensors", "sinks", "inputs")]
    texts += [record.getMessage() for record in caplog.records if record.name.startswith("penstock")]
    for number, text in enumerate(texts):
        assert "canary" not in text, (number, text)
    assert "id" in str(world.db.system.table("penstock.sinks").column("options").to_pylist())
    world.db.catalog.close()
    for path in (world.pipe.folder / "audit").glob("*"):
        assert b"canary" not in path.read_bytes(), path


@pytest.mark.parametrize(
    "text",
    [
        "CREATE USER ada PASSWORD 'canary' ROLE admin",
        "ALTER USER ada\n password   'it''s canary'",
        "CREATE SINK s FOR q TO webhook (url = 'https://u:canary@h/x?token=canary', secret='canary', token = 'canary')",
        "CREATE STREAM TYPE t AS (v INT) USING mqtt OPTIONS (url 'mqtt://h', password 'canary', \"api_key\" 'canary')",
        "ALTER USER ada PASSWORD 'canary " + "x" * 10_000,
        "CREATE USER ada PASSWORD $$canary$$ ROLE admin",
    ],
)
def test_the_text_of_a_statement_is_listed_without_what_sounds_like_a_secret(text: str) -> None:
    shown = shortened(text)
    assert "canary" not in shown and shown.split()[:2] == text.split()[:2]


def test_the_text_of_other_statements_is_listed_as_it_is() -> None:
    for text in ("SELECT key FROM t WHERE key = 'a' AND token_count > 3", "INSERT INTO t VALUES ('my password ', 'b')"):
        assert shortened(text) == text


@pytest.mark.parametrize("user", ["u", "u@tenant", "u:p@ss"])
def test_a_password_is_masked_up_to_the_last_at(user: str) -> None:
    address = f"mqtts://{user}:s3cr3t@s3cr3t@broker.example:8883/x@y"
    assert "s3cr3t" not in shown_address(address)
    assert shown_address(address).endswith(":***@broker.example:8883/x@y")
    assert "s3cr3t" not in without("no answer for s3cr3t@s3cr3t", secrets_of({"url": address.replace("u:p@ss", "u")}))
