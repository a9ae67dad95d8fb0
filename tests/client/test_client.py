"""The Python client against a real socket and the fake database."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

import penstock
from penstock.client import Connection
from penstock.errors import PenstockError
from penstock.views.results import Behind
from tests.server.fake import FakeDatabase
from tests.server.live import Live, serving


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Live, FakeDatabase]]:
    database = FakeDatabase()
    with serving(database) as live:
        yield live, database


@pytest.fixture
def database(shared: tuple[Live, FakeDatabase]) -> FakeDatabase:
    """Fresh for each test; the server keeps the object."""
    shared[1].__dict__.update(FakeDatabase().__dict__)
    return shared[1]


@pytest.fixture
def db(shared: tuple[Live, FakeDatabase], database: FakeDatabase) -> Iterator[Connection]:
    with penstock.connect(shared[0].url) as connection:
        yield connection


def test_running_statements_are_listed_and_cancelled_and_a_statement_has_a_time(db: Connection) -> None:
    assert db.statements() == []
    with pytest.raises(PenstockError) as caught:
        db.cancel("0123456789abcdef")
    assert caught.value.condition == "statement_not_found"
    assert len(db.sql("SELECT 1", timeout_s=700)) == 2
    with pytest.raises(PenstockError, match="timeout_s"):
        db.sql("SELECT 1", timeout_s=0)


def test_sql_answers_arrow_pandas_and_rows(db: Connection, database: FakeDatabase) -> None:
    answer = db.sql("SELECT * FROM sensors WHERE ppm > $1", 35)
    assert answer.columns == ["location", "ppm"]
    assert answer.rows() == [{"location": "north gate", "ppm": 37.5}, {"location": "pier", "ppm": 41.0}]
    assert answer.to_arrow().schema.field("ppm").type == pa.float64()
    assert answer.to_pandas()["ppm"].sum() == 78.5
    assert (answer.cycle, answer.now, answer.complete_from) == (7, "2023-11-14T22:13:20.000000Z", None)
    assert database.statements == [("SELECT * FROM sensors WHERE ppm > $1", [35])]


def test_answers_and_changes_say_how_far_a_query_stands_behind(db: Connection, database: FakeDatabase) -> None:
    behind, told = Behind(3, 1200, 2.5), {"cycle": 3, "rows": 1200, "seconds": 2.5}
    assert db.sql("SELECT * FROM sensors").behind is None
    database.result = replace(database.result, behind=behind)
    assert db.sql("SELECT * FROM sensors").behind == told
    database.commit("gas_alarm", 1)
    database.events["gas_alarm"][2] = replace(database.events["gas_alarm"][1], cycle=2, behind=behind, encoded={})
    seen = db.subscribe("gas_alarm", from_cycle=1)
    assert [next(seen).behind, next(seen).behind] == [None, told]


def test_parameters_go_by_place_or_by_name(db: Connection, database: FakeDatabase) -> None:
    db.sql("SELECT :since", since=datetime(2026, 1, 5, 12, tzinfo=UTC))
    assert database.statements[-1][1] == {"since": "2026-01-05T12:00:00+00:00"}
    with pytest.raises(PenstockError, match="not both"):
        db.sql("SELECT $1, :a", 1, a=2)


def test_a_bad_query_among_many_is_shown_with_its_own_text(db: Connection, database: FakeDatabase) -> None:
    with pytest.raises(PenstockError) as refused:
        db.register([("a", "SELECT ppm"), {"name": "b", "sql": "SELECT pmp"}])
    assert refused.value.message.startswith('query "b" (2 of 2)'), refused.value.message
    assert "  1 | SELECT pmp\n    |        ^^^" in refused.value.render()
    assert db.register([]) == []


def test_an_older_answer_is_asked_for_by_cycle_time_or_distance(db: Connection, database: FakeDatabase) -> None:
    query = db.query("gas_alarm")
    query.rows(as_of=5)
    query.rows(as_of="NOW - 5 MINUTES")
    query.rows(as_of=datetime(2026, 1, 5, 12))
    assert database.asked_as_of == [5, "NOW - 5 MINUTES", "2026-01-05T12:00:00+00:00"]


def test_many_are_dropped_in_one_statement(db: Connection, database: FakeDatabase) -> None:
    db.drop_queries([])
    db.drop_queries(["gas_alarm", 'odd "name"'], if_exists=True)
    assert database.statements == [('DROP QUERY IF EXISTS "gas_alarm", "odd ""name"""', None)]


def test_a_connection_says_whose_queries_it_registers(
    shared: tuple[Live, FakeDatabase], database: FakeDatabase
) -> None:
    with penstock.connect(shared[0].url, user="ada") as connection:
        connection.register([("a", "SELECT 1")])
    assert database.owners == ["ada"]


def test_a_statement_without_rows_says_what_it_did(db: Connection) -> None:
    answer = db.sql("CREATE TABLE t (a INT)")
    assert (answer.done, answer.rows(), answer.notices) == ("CREATE TABLE", [], ("noted",))


def test_errors_come_back_with_every_field(db: Connection) -> None:
    with pytest.raises(PenstockError) as caught:
        db.sql("SELECT pmp FROM sensors")
    problem = caught.value
    assert (problem.condition, problem.sqlstate, problem.hint) == ("column_not_found", "42703", 'did you mean "ppm"?')
    assert (problem.line, problem.column, problem.length) == (1, 8, 3)


def test_a_query_handle_reads_and_drops(db: Connection, database: FakeDatabase) -> None:
    query = db.query("gas_alarm")
    assert len(query.rows()) == 2
    assert len(query.rows(limit=1)) == 1
    assert query.rows(limit=1, offset=1) == query.rows()[1:]
    assert query.to_arrow().num_rows == 2
    assert isinstance(query.to_pandas(), pd.DataFrame)
    assert query.describe()["state"] == "running"
    query.alter(begin="NOW - 1 HOUR")
    query.pause()
    query.resume()
    query.drop()
    assert [sql for sql, _ in database.statements] == [
        'ALTER QUERY "gas_alarm" SET BEGIN (NOW - 1 HOUR)',
        'ALTER QUERY "gas_alarm" PAUSE',
        'ALTER QUERY "gas_alarm" RESUME',
        'DROP QUERY "gas_alarm"',
    ]
    with pytest.raises(PenstockError, match="gas_alarm"):
        query.rows()


def test_a_select_can_be_queried_but_not_dropped(db: Connection) -> None:
    query = db.query("SELECT 1 AS one")
    assert len(query.to_pandas()) == 2
    with pytest.raises(PenstockError, match="not a standing query"):
        query.drop()


def test_many_queries_register_in_one_call(db: Connection, database: FakeDatabase) -> None:
    assert db.register([("a", "SELECT 1"), ("b", "SELECT 2")]) == [
        {"name": "a", "error": None},
        {"name": "b", "error": None},
    ]
    assert [query["name"] for query in db.queries()] == ["a", "b", "gas_alarm"]


@pytest.mark.parametrize(
    "readings",
    [
        [{"sensor_id": 1, "ppm": 1.5}, {"sensor_id": 2, "ppm": 2.0}],
        pd.DataFrame({"sensor_id": [1, 2], "ppm": [1.5, 2.0]}, index=[7, 9]),
        pa.table({"sensor_id": [1, 2], "ppm": [1.5, 2.0]}),
        pa.record_batch({"sensor_id": [1, 2], "ppm": [1.5, 2.0]}),
    ],
    ids=["rows", "pandas", "table", "batch"],
)
def test_push_takes_what_people_have(db: Connection, database: FakeDatabase, readings: object) -> None:
    receipt = db.push("sensors", readings)  # type: ignore[arg-type]
    assert (receipt.accepted, receipt.refused, receipt.position) == (2, (), 2)
    assert database.readings == [{"sensor_id": 1, "ppm": 1.5}, {"sensor_id": 2, "ppm": 2.0}]
    assert database.pushes[0][0] == "Table"


def test_rows_that_differ_travel_as_json_so_that_each_is_judged_alone(db: Connection, database: FakeDatabase) -> None:
    rows = [{"sensor_id": 1, "ppm": 1.5}, {"sensor_id": 2}, {"sensor_id": 3, "ppm": "x"}]
    db.push("sensors", rows)
    db.push("sensors", [rows[0], rows[2]])
    assert [kind for kind, _, _ in database.pushes] == ["list", "list"]
    assert database.readings == [*rows, rows[0], rows[2]]


def test_nothing_changes_silently_on_the_way(db: Connection, database: FakeDatabase) -> None:
    db.push("sensors", [{"sensor_id": 1, "ppm": float("nan")}])
    assert str(database.readings[0]["ppm"]) == "nan"
    with pytest.raises(PenstockError, match="nan cannot travel"):
        db.push("sensors", [{"sensor_id": 1, "ppm": float("nan")}, {"sensor_id": 2}])
    with pytest.raises(PenstockError, match="cannot be sent"):
        db.push("sensors", [{"sensor_id": 1, "ppm": object()}, {"sensor_id": 2}])
    db.push("sensors", [{"sensor_id": 1, "raw": b"\x00\xff", "money": Decimal("1.10")}, {"sensor_id": 2}])
    assert database.readings[-2] == {"sensor_id": 1, "raw": "AP8=", "money": "1.10"}


def test_batches_keep_order_keys_and_the_places_of_refusals(db: Connection, database: FakeDatabase) -> None:
    rows = [{"sensor_id": -1 if i == 7 else i} for i in range(10)]
    receipt = db.push("sensors", rows, batch_rows=3, idempotency_key="mine")
    assert receipt.accepted == 9
    assert [(r.index, r.condition) for r in receipt.refused] == [(7, "sensor_not_found")]
    assert [(key, count) for _, key, count in database.pushes] == [
        ("mine", 3),
        ("mine-1", 3),
        ("mine-2", 3),
        ("mine-3", 1),
    ]
    assert db.push("sensors", rows, batch_rows=3, idempotency_key="mine").accepted == 9
    assert len(database.readings) == 9


def test_an_empty_push_is_no_push(db: Connection, database: FakeDatabase) -> None:
    assert db.push("sensors", []).accepted == 0
    assert database.pushes == []
    with pytest.raises(PenstockError, match="cannot push a int"):
        db.push("sensors", 5)  # type: ignore[arg-type]


def test_a_busy_server_is_tried_again_with_the_same_key(db: Connection, database: FakeDatabase) -> None:
    database.fail_pushes = 2
    assert db.push("sensors", [{"sensor_id": 1}]).accepted == 1
    assert len(database.pushes) == 1
    database.fail_pushes = 100
    with pytest.raises(PenstockError, match="full"):
        db.push("sensors", [{"sensor_id": 1}], retry_for_s=0.2)


def test_an_unknown_table_is_not_tried_again(db: Connection, database: FakeDatabase) -> None:
    asked = database.asked_tables
    with pytest.raises(PenstockError, match="no table"):
        db.push("other", [{"sensor_id": 1}])
    assert asked == ["other"]


def test_nobody_there_is_said_clearly() -> None:
    with penstock.connect("http://127.0.0.1:9") as db, pytest.raises(PenstockError) as caught:
        db.sql("SELECT 1")
    assert caught.value.condition == "connection_failed"
    assert caught.value.hint == "is `penstock serve` running at http://127.0.0.1:9?"
    with penstock.connect("http://127.0.0.1:9") as db, pytest.raises(PenstockError, match="no answer"):
        next(db.subscribe("gas_alarm"))


def test_the_catalog_and_the_system_can_be_asked(db: Connection, database: FakeDatabase, tmp_path: object) -> None:
    assert db.tables()[0]["name"] == "sensors"
    assert db.describe_table("sensors")["key"] == ["sensor_id"]
    assert db.sensors("sensors")[0]["state"] == "open"
    assert db.health()["ready"] is True
    assert db.status()["cycle"] == 7
    db.backup(f"{tmp_path}/copy")
    assert str(database.backups[0]) == f"{tmp_path}/copy"


def test_names_are_quoted_in_paths(db: Connection, database: FakeDatabase) -> None:
    database.definitions["a b?"] = "SELECT 1"
    assert db.describe_query("a b?")["name"] == "a b?"


def test_a_subscription_asks_for_final_rows(db: Connection, database: FakeDatabase) -> None:
    database.commit("gas_alarm", 1)
    for wanted in (False, True):
        next(db.subscribe("gas_alarm", final=wanted))
        next(db.query("gas_alarm").subscribe(final=wanted))
    assert database.asked_final == [False, False, True, True]


def test_a_subscription_yields_changes_in_order(db: Connection, database: FakeDatabase) -> None:
    for cycle in (1, 2, 3):
        database.commit("gas_alarm", cycle)
    found = db.subscribe("gas_alarm")
    changes = [next(found) for _ in range(3)]
    assert [change.cycle for change in changes] == [1, 2, 3]
    assert changes[0].rows[0] == {"location": "north gate", "ppm": 37.5}
    assert changes[0].columns == ("location", "ppm")
    assert next(db.subscribe("gas_alarm", from_cycle=3)).cycle == 3


def test_dropping_the_query_ends_a_subscription_with_its_error(db: Connection, database: FakeDatabase) -> None:
    database.commit("gas_alarm", 1)
    found = db.subscribe("gas_alarm")
    next(found)
    db.query("gas_alarm").drop()
    with pytest.raises(PenstockError) as caught:
        next(found)
    assert caught.value.condition == "query_not_found"


def test_a_subscription_survives_a_restart_without_gap_or_repeat() -> None:
    database = FakeDatabase()
    seen: list[int] = []
    with serving(database) as live, penstock.connect(live.url) as db:

        def read() -> None:
            for change in db.subscribe("gas_alarm"):
                seen.append(change.cycle)
                if change.cycle == 4:
                    return

        database.commit("gas_alarm", 1)
        reader = threading.Thread(target=read)
        reader.start()
        while not seen:
            time.sleep(0.01)
        live.stop()
        database.commit("gas_alarm", 2)
        live.start()
        database.commit("gas_alarm", 3)
        database.commit("gas_alarm", 4)
        reader.join(60)
        assert seen == [1, 2, 3, 4]
