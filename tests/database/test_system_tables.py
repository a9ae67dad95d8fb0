"""penstock.*: rates, costs and distributions of values, on a database without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.database.sampler import Rates
from penstock.errors import PenstockError
from penstock.operators.mining.registry import FUNCTIONS as MINING
from penstock.security.caller import Caller, acting_as
from penstock.settings import SETTINGS
from penstock.sql.functions import FUNCTIONS
from tests.support.pipe import Pipe


def rows(pipe: Pipe, table: str) -> list[dict[str, Any]]:
    return list(pipe.db.system.table(f"penstock.{table}").to_pylist())


def test_every_column_of_every_table_is_there_before_anything_happened(pipe: Pipe) -> None:
    for name in ("sensors", "queries", "streams", "fields"):
        assert rows(pipe, name) == []
    assert [c["rows"] for c in rows(pipe, "cycles")] == [0]


def test_distributions_hold_what_was_logged(pipe: Pipe) -> None:
    pipe.probes()
    pipe.push(*map(float, range(101)))
    pipe.db.push("probes", [{"id": 1, "value": None}])
    pipe.db.sampler.look()
    (found,) = rows(pipe, "fields")
    assert (found["table_name"], found["field"], found["type"]) == ("probes", "value", "DOUBLE")
    assert (found["sampled"], found["nulls"], found["least"], found["most"]) == (102, 1, 0.0, 100.0)
    assert found["mean"] == pytest.approx(50.0) and found["stddev"] == pytest.approx(29.155, abs=0.001)
    assert (found["p05"], found["p50"], found["p95"], found["p99"]) == (5.0, 50.0, 95.0, 99.0)


def test_distributions_begin_with_the_server_and_end_with_the_table(pipe: Pipe) -> None:
    pipe.probes()
    pipe.push(1.0)
    pipe.restart()
    pipe.db.sampler.look()
    assert rows(pipe, "fields")[0]["sampled"] == 0
    pipe.push(7.0)
    pipe.db.sampler.look()
    pipe.db.sampler.look()
    assert [(r["sampled"], r["mean"]) for r in rows(pipe, "fields")] == [(1, 7.0)]
    pipe.db.execute("DROP TABLE probes")
    pipe.db.sampler.look()
    assert rows(pipe, "fields") == []


def test_rates_are_of_the_last_minute(pipe: Pipe) -> None:
    now_s = 0.0
    rates = Rates(pipe.db.ingest, lambda: now_s)
    pipe.probes()
    table = pipe.db.catalog.state.tables["probes"]
    pipe.push(*[1.0] * 30)
    now_s = 10.0
    assert rates.of(table) == 3.0
    for _ in range(6):
        now_s += 15.0
        rates.mark([table])
    assert rates.of(table) == 0.0
    pipe.push(*[1.0] * 90, sensor=2)
    assert rates.of(table) == 2.0
    accepted = pipe.db.ingest.sensors("probes")["accepted"]
    assert rates.by_sid(table, accepted)[:2].tolist() == [0.0, 2.0]


def test_sensors_show_what_became_of_their_readings(pipe: Pipe) -> None:
    pipe.probes("WITH (time = 'valid')")
    now_us = pipe.clock.now_us()
    late = [{"id": 1, "value": 1.0, "ts": now_us}, {"id": 1, "value": 2.0, "ts": now_us - 1}]
    pipe.db.push("probes", late)
    pipe.engine.drain()
    first, second = rows(pipe, "sensors")
    assert (first["sensor"], first["state"], first["readings"], first["refused"]) == ("1", "pushed", 1, 1)
    assert first["rows_per_s"] > 0
    assert (second["readings"], second["refused"], second["rows_per_s"]) == (0, 0, 0.0)


def test_costs_are_kept_per_cycle_and_per_query_and_go_with_it(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY high AS SELECT value FROM probes WHERE value > 1")
    pipe.db.execute("CREATE QUERY low AS SELECT value FROM probes WHERE value < -1")
    pipe.engine.drain()
    pipe.push(1.0, 2.0, 3.0)
    pipe.engine.drain()
    high, low = rows(pipe, "queries")
    assert (high["rows"], low["rows"]) == (2, 0)
    assert high["bytes"] > 0 and high["evaluations"] == low["evaluations"] > 0
    cycle = rows(pipe, "cycles")[-1]
    assert (cycle["rows"], cycle["matched"], cycle["queries"]) == (3, 2, 2)
    assert cycle["bytes"] >= high["bytes"] and cycle["ms"] is not None
    pipe.db.execute("DROP QUERY high")
    pipe.engine.drain()
    assert set(pipe.db.costs._queries) == {pipe.db.definition("low").id}


def test_show_gives_what_fits_on_a_terminal(pipe: Pipe) -> None:
    pipe.probes()
    for what in ("QUERIES", "SENSORS", "STREAMS", "CYCLES"):
        shown = pipe.db.execute(f"SHOW {what}").table
        assert shown.num_columns <= 9
        assert set(shown.column_names) <= set(pipe.db.system.table(f"penstock.{what.lower()}").column_names)
    assert pipe.db.execute("SHOW SENSORS FROM probes").table.num_rows == 2
    with pytest.raises(PenstockError, match="SHOW QUERIES of one table is not supported"):
        pipe.db.execute("SHOW QUERIES FROM probes")


def test_settings_show_values_without_secrets_to_admins_only(pipe: Pipe) -> None:
    database = pipe.db
    object.__setattr__(database.settings, "token", "canary-token-of-more-than-32-characters")
    object.__setattr__(database.settings, "spark_master", "spark://u:canary-password@host/db")
    by_name = {row["name"]: row for row in rows(pipe, "settings")}
    assert set(by_name) == {setting.name for setting in SETTINGS}
    assert (by_name["port"]["value"], by_name["port"]["default"]) == ("8470", "8470")
    assert by_name["token"]["value"] == "***" and by_name["spark_master"]["value"] == "spark://u:***@host/db"
    assert "canary" not in str(by_name)
    database.users.create_user("boss", "admin", "a password of the boss")
    with acting_as(Caller("reader", "read", user="reader")):
        assert {row["value"] for row in rows(pipe, "settings")} == {None}
    assert {row["value"] for row in rows(pipe, "settings")} == {None}  # asked in no user's name


def test_functions_are_listed_with_those_of_users(pipe: Pipe) -> None:
    pipe.db.execute("CREATE FUNCTION twice(a DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$ return 2 * a $$")
    found = rows(pipe, "functions")
    assert [r for r in found if not r["built_in"]] == [
        {
            "name": "twice",
            "arguments": "a DOUBLE",
            "result": "DOUBLE",
            "kind": "scalar",
            "built_in": False,
            "language": "python",
        }
    ]
    names = {r["name"] for r in found if r["built_in"]}
    assert names == {name for function in FUNCTIONS for name in function.names} | MINING.keys()
