"""Definitions: what is accepted, what is refused by name, who depends on whom, and what stays after a restart."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.catalog import journal
from penstock.catalog.catalog import NewQuery
from penstock.catalog.journal import Entry
from penstock.catalog.model import Function, StreamColumn, StreamType, TableOptions
from penstock.catalog.state import CatalogState, load_state
from penstock.errors import PenstockError
from penstock.types import DOUBLE, INT, TEXT, Field, parse_type
from tests.catalog.bench import READING, STATIC, CatalogBench, everything


def refused(condition: str, work: object, *arguments: object, **named: object) -> str:
    with pytest.raises(PenstockError) as caught:
        work(*arguments, **named)  # type: ignore[operator]  # any of the catalog's methods
    assert caught.value.condition == condition
    return caught.value.message


def test_entries_before_one_that_nobody_understands_are_taken_in_once(bench: CatalogBench) -> None:
    bench.make_sensors()
    bench.catalog.insert_rows("sensors", [(1, "a", None), (2, "b", None)])
    bench.catalog.create_query("q", "", {}, ("sensors",))
    entries = journal.JournalReader(bench.folder).read()
    strange = Entry(len(entries) + 1, "create_moon", entries[-1].heads, entries[-1].at_us, {})
    state = CatalogState()
    with pytest.raises(PenstockError, match="create_moon"):
        state.apply_many([*entries, strange])
    assert everything(state) == everything(bench.state)
    assert state.position == bench.state.position


# -- names and dependents


def test_a_name_belongs_to_one_table_or_query(bench: CatalogBench) -> None:
    bench.make_sensors("a")
    bench.catalog.create_query("q", "", {}, ("a",))
    refused("already_exists", bench.make_sensors, "a")
    refused("already_exists", bench.make_sensors, "q")
    refused("already_exists", bench.catalog.create_query, "a", "", {}, ("a",))
    refused("already_exists", bench.catalog.create_query, "q", "", {}, ("a",))
    assert bench.state.position == 2


def test_if_not_exists_gives_what_is_there(bench: CatalogBench) -> None:
    made = bench.make_sensors()
    again = bench.catalog.create_table("sensors", (), (), READING, TableOptions(), if_not_exists=True)
    bench.catalog.create_stream_type(StreamType("probe", READING.fields))
    bench.catalog.create_stream_type(StreamType("probe", ()), if_not_exists=True)
    assert (again, bench.state.position) == (made, 2)


def make_chain(bench: CatalogBench) -> None:
    """probe <- sensors <- (hot, f()) <- hotter <- hottest; other stands alone."""
    bench.catalog.create_stream_type(StreamType("probe", READING.fields))
    stream = StreamColumn("reading", READING.fields, stream_type="probe")
    bench.catalog.create_table("sensors", STATIC, ("sensor_id",), stream, TableOptions())
    bench.make_sensors("other")
    bench.catalog.create_function(Function("f", (Field("x", DOUBLE),), DOUBLE, "return x"))
    bench.catalog.create_query("hot", "", {}, ("sensors",), reads_functions=("f",))
    bench.catalog.create_query("hotter", "", {}, ("other", "sensors"), ("hot",))
    bench.catalog.create_query("hottest", "", {}, (), ("hotter", "hot"))


def test_what_is_used_is_not_dropped_and_the_users_are_named(bench: CatalogBench) -> None:
    make_chain(bench)
    assert refused("dependents_exist", bench.catalog.drop, "stream_type", "probe").endswith('used by table "sensors"')
    message = refused("dependents_exist", bench.catalog.drop, "table", "sensors")
    assert message == 'table "sensors" is used by query "hot", query "hotter"'
    refused("dependents_exist", bench.catalog.drop, "function", "f")
    refused("dependents_exist", bench.catalog.drop, "query", "hot")
    assert bench.state.dependents("query", "hotter") == ['query "hottest"']
    assert bench.state.dependents("query", "hottest") == []


def test_cascade_reaches_users_of_users_and_drops_each_once_users_first(bench: CatalogBench) -> None:
    make_chain(bench)
    assert bench.catalog.drop("stream_type", "probe", cascade=True) == [
        'query "hottest"',
        'query "hotter"',
        'query "hot"',
        'table "sensors"',
        'stream type "probe"',
    ]
    assert (list(bench.state.tables), list(bench.state.functions), bench.state.queries) == (["other"], ["f"], {})
    assert everything(load_state(bench.folder)) == everything(bench.state)


def test_dropping_a_query_lets_its_function_go(bench: CatalogBench) -> None:
    make_chain(bench)
    bench.catalog.drop("query", "hot", cascade=True)
    assert bench.catalog.drop("function", "f") == ['function "f"']


def test_a_long_chain_of_queries_is_dropped_without_a_stack(bench: CatalogBench) -> None:
    bench.make_sensors()
    chain = [NewQuery("q0", "", {}, ("sensors",))]
    chain += [NewQuery(f"q{i}", "", {}, (), (f"q{i - 1}",)) for i in range(1, 2_000)]
    bench.catalog.create_queries(chain)
    assert len(bench.catalog.drop("table", "sensors", cascade=True)) == 2_001


def test_a_refusal_names_ten_users_and_counts_the_rest(bench: CatalogBench) -> None:
    bench.make_sensors()
    bench.catalog.create_queries([NewQuery(f"q{i}", "", {}, ("sensors",)) for i in range(25)])
    assert refused("dependents_exist", bench.catalog.drop, "table", "sensors").endswith('query "q9", 15 more')


@pytest.mark.parametrize("kind", ["table", "stream_type", "function", "query"])
def test_what_is_not_there_cannot_be_dropped_but_if_exists_is_content(bench: CatalogBench, kind: str) -> None:
    refused(f"{kind}_not_found", bench.catalog.drop, kind, "nothing")
    assert bench.catalog.drop(kind, "nothing", if_exists=True) == []
    assert bench.state.position == 0


def test_a_query_whose_table_went_while_it_was_planned_is_refused(bench: CatalogBench) -> None:
    bench.make_sensors()
    for reads in ({"reads_tables": ("gone",)}, {"reads_queries": ("gone",)}, {"reads_functions": ("gone",)}):
        kind = next(iter(reads)).removeprefix("reads_").removesuffix("s").replace("querie", "query")
        refused(
            f"{kind}_not_found", bench.catalog.create_queries, [NewQuery("q", "", {}, **{"reads_tables": (), **reads})]
        )
    refused(
        "stream_type_not_found",
        bench.catalog.create_table,
        "t",
        STATIC,
        ("sensor_id",),
        StreamColumn("reading", (), stream_type="gone"),
        TableOptions(),
    )


def test_many_queries_come_together_or_not_at_all(bench: CatalogBench) -> None:
    bench.make_sensors()
    twice = [NewQuery("a", "", {}, ("sensors",)), NewQuery("b", "", {}, (), ("a",)), NewQuery("a", "", {}, ())]
    refused("already_exists", bench.catalog.create_queries, twice)
    assert bench.state.queries == {}
    assert [q.id for q in bench.catalog.create_queries(twice[:2])] == [1, 2]


def test_a_change_of_a_query_keeps_its_id_and_says_when(bench: CatalogBench) -> None:
    bench.make_sensors()
    made = bench.catalog.create_query("q", "old", {"n": 1}, ("sensors",), start_us=7)
    changed = bench.catalog.change_query("q", sql="new", plan={"n": 2})
    assert (changed.id, changed.sql, changed.plan, changed.start_us) == (made.id, "new", {"n": 2}, 7)
    assert bench.state.query_positions[made.id] == (2, 3)
    bench.catalog.change_query("q", paused=False)
    assert bench.state.position == 3
    refused("query_not_found", bench.catalog.change_query, "p")


def test_ids_are_never_given_again_whatever_was_dropped(bench: CatalogBench) -> None:
    for round_ in range(1, 4):
        table = bench.make_sensors()
        query = bench.catalog.create_query("q", "", {}, ("sensors",))
        assert (table.id, query.id) == (round_, round_)
        bench.catalog.drop("table", "sensors", cascade=True)
        bench.reopen()


# -- tables and rows


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ((Field("a", INT), Field("a", INT)), ("a",)),
        ((Field("reading", INT),), ("reading",)),
        ((Field("a", INT),), ("b",)),
        ((Field("a", INT),), ()),
        ((Field("a", parse_type("ARRAY<INT>")),), ("a",)),
    ],
)
def test_a_sensor_table_that_cannot_tell_its_sensors_apart_is_refused(
    bench: CatalogBench, columns: tuple[Field, ...], key: tuple[str, ...]
) -> None:
    refused("invalid_definition", bench.catalog.create_table, "t", columns, key, READING, TableOptions())


def test_a_sensor_table_without_static_columns_is_one_sensor_from_the_start(bench: CatalogBench) -> None:
    table = bench.catalog.create_table("wind", (), (), READING, TableOptions())
    assert bench.state.rows(table.id).current().select(["_sid", "_address"]).to_pylist() == [
        {"_sid": 0, "_address": None}
    ]
    assert bench.catalog.update_rows("wind", {0: ["tcp://here"]}) == 1
    refused("invalid_definition", bench.catalog.insert_rows, "wind", [("tcp://there",)])
    refused("invalid_definition", bench.catalog.delete_rows, "wind", [0])
    refused("invalid_definition", bench.catalog.add_column, "wind", Field("a", INT), to_stream=False)
    assert bench.state.rows(table.id).find([], rows=1).tolist() == [1]


def test_an_ordinary_table_has_rows_without_addresses_with_or_without_a_key(bench: CatalogBench) -> None:
    bench.catalog.create_table("limits", (Field("gas", TEXT), Field("most", DOUBLE)), ("gas",), None, TableOptions())
    bench.catalog.create_table("notes", (Field("text", TEXT),), (), None, TableOptions())
    bench.catalog.insert_rows("limits", [("CO", 35), ("NO2", 5.5)])
    assert bench.catalog.insert_rows("notes", [("twice",), ("twice",), (None,)]) == 3
    bench.catalog.update_rows("limits", {1: ("NO2", 6)})
    bench.catalog.add_column("limits", Field("unit", TEXT), to_stream=False)
    bench.catalog.insert_rows("limits", [("H2S", 10, "ppm")])
    assert bench.state.rows(1).current().select(["gas", "most", "unit", "_address"]).to_pylist() == [
        {"gas": "CO", "most": 35.0, "unit": None, "_address": None},
        {"gas": "NO2", "most": 6.0, "unit": None, "_address": None},
        {"gas": "H2S", "most": 10.0, "unit": "ppm", "_address": None},
    ]
    assert bench.state.observations(1) == {}
    refused("invalid_definition", bench.catalog.add_column, "limits", Field("a", INT), to_stream=True)


def test_added_columns_and_fields_have_names_of_their_own(bench: CatalogBench) -> None:
    bench.make_sensors()
    bench.catalog.add_column("sensors", Field("lat", DOUBLE), to_stream=False)
    bench.catalog.add_column("sensors", Field("humidity", DOUBLE), to_stream=True)
    for name in ("lat", "sensor_id", "reading"):
        refused("already_exists", bench.catalog.add_column, "sensors", Field(name, INT), to_stream=False)
    refused("already_exists", bench.catalog.add_column, "sensors", Field("ppm", INT), to_stream=True)
    refused("table_not_found", bench.catalog.add_column, "sensor", Field("a", INT), to_stream=False)


def test_no_added_column_takes_the_name_of_another(bench: CatalogBench) -> None:
    table = bench.make_sensors()
    before = table.flat_columns()
    with pytest.raises(PenstockError) as caught:
        bench.catalog.add_column("sensors", Field("ppm", INT), to_stream=False)
    assert caught.value.condition == "already_exists" and "readings of sensors" in (caught.value.hint or "")
    assert bench.state.tables["sensors"].flat_columns() == before
    bench.catalog.add_column("sensors", Field("location", TEXT), to_stream=True)
    names = [c.name for c in bench.state.tables["sensors"].flat_columns()]
    assert "reading.location" in names and set(names) > {c.name for c in before}
    refused("already_exists", bench.catalog.add_column, "sensors", Field("reading.location", INT), to_stream=False)


def test_keys_are_unique_and_never_null(bench: CatalogBench) -> None:
    bench.make_sensors()
    insert, update = bench.catalog.insert_rows, bench.catalog.update_rows
    insert("sensors", [(1, "gate", "a"), (2, "pier", "b")])
    assert "sensor_id = 2" in refused("unique_violation", insert, "sensors", [(3, "x", "c"), (2, "y", "d")])
    refused("unique_violation", insert, "sensors", [(3, "x", "c"), (3, "y", "d")])
    refused("unique_violation", update, "sensors", {0: (2, "gate", "a")})
    refused("unique_violation", update, "sensors", {0: (3, "gate", "a"), 1: (3, "gate", "a")})
    assert "sensor_id" in refused("not_null_violation", insert, "sensors", [(None, "x", "c")])
    refused("type_mismatch", insert, "sensors", [(3, "x")])
    assert '"location"' in refused("type_mismatch", insert, "sensors", [(3, 4, "c")])
    assert '"reading"' in refused("type_mismatch", insert, "sensors", [(3, "x", 5)])
    assert bench.state.position == 2
    assert update("sensors", {0: (2, "gate", "a"), 1: (1, "pier", "b")}) == 2
    assert insert("sensors", []) == 0


def test_equal_decimals_are_one_key_however_they_are_written(bench: CatalogBench) -> None:
    bench.catalog.create_table("t", (Field("d", parse_type("DECIMAL(6, 2)")),), ("d",), None, TableOptions())
    bench.catalog.insert_rows("t", [("1.5",)])
    refused("unique_violation", bench.catalog.insert_rows, "t", [("1.50",)])


def test_rows_that_went_meanwhile_are_neither_changed_nor_counted(bench: CatalogBench) -> None:
    bench.make_sensors()
    bench.catalog.insert_rows("sensors", [(1, "gate", "a"), (2, "pier", "b")])
    assert bench.catalog.delete_rows("sensors", [0, 0, 99]) == 1
    assert bench.catalog.delete_rows("sensors", [0]) == 0
    assert bench.catalog.update_rows("sensors", {0: (1, "x", "a"), 1: (2, "y", "b")}) == 1
    assert bench.catalog.update_rows("sensors", {0: (1, "x", "a")}) == 0
    assert everything(load_state(bench.folder)) == everything(bench.state)


# -- observation and retention


def test_pushed_sensors_are_observed_from_their_insert_until_their_delete(bench: CatalogBench) -> None:
    bench.make_sensors()
    bench.catalog.insert_rows("sensors", [(1, "gate", "a"), (2, "pier", "b")])
    bench.clock.advance(5)
    bench.catalog.delete_rows("sensors", [0])
    assert bench.state.observations(1) == {0: [(1_000, 1_005)], 1: [(1_000, None)]}


def test_a_column_that_is_not_null_is_so_in_every_row(bench: CatalogBench) -> None:
    columns = (Field("id", INT), Field("place", TEXT, required=True), Field("note", TEXT))
    bench.catalog.create_table("rooms", columns, ("id",), None, TableOptions())
    bench.catalog.insert_rows("rooms", [(1, "hall", None)])
    assert '"place" of "rooms"' in refused(
        "not_null_violation", bench.catalog.insert_rows, "rooms", [(2, "attic", None), (3, None, None)]
    )
    refused("not_null_violation", bench.catalog.update_rows, "rooms", {0: (1, None, "empty")})
    bench.reopen()
    refused("not_null_violation", bench.catalog.insert_rows, "rooms", [(2, None, None)])
    assert bench.state.tables["rooms"].columns == columns
    assert bench.catalog.insert_rows("rooms", [(2, "attic", None)]) == 1
    refused("not_supported", bench.catalog.add_column, "rooms", Field("a", INT, required=True), to_stream=False)


def test_other_sensors_are_observed_while_they_are_open(bench: CatalogBench) -> None:
    table = bench.make_sensors(connector="tcp")
    bench.catalog.insert_rows("sensors", [(1, "gate", "a"), (2, "pier", "b")])
    assert bench.state.observations(table.id) == {}
    bench.catalog.observe(table.id, [0, 1], [])
    bench.clock.advance(5)
    bench.catalog.observe(table.id, [], [0])
    bench.catalog.observe(table.id, [0], [])
    bench.catalog.observe(table.id, [], [])
    bench.catalog.observe(99, [1], [])
    assert bench.state.observations(table.id) == {0: [(1_000, 1_005), (1_005, None)], 1: [(1_000, None)]}
    assert bench.state.position == 5


def test_a_sensor_that_ended_is_known_as_such_until_it_is_reached_in_another_way(bench: CatalogBench) -> None:
    table = bench.make_sensors(connector="tcp")
    bench.catalog.insert_rows("sensors", [(i, "gate", f"address {i}") for i in range(5)])
    bench.catalog.observe(table.id, [0, 1, 2, 3, 4], [])
    bench.catalog.observe(table.id, [], [0, 1, 2, 3], [0, 1, 2, 3])
    assert bench.state.ended(table.id) == {0, 1, 2, 3}
    bench.catalog.update_rows("sensors", {0: (0, "pier", "address 0"), 1: (1, "gate", "elsewhere")})
    bench.catalog.delete_rows("sensors", [2])
    bench.reopen()
    assert bench.state.ended(table.id) == {0, 3}
    bench.catalog.observe(table.id, [3], [])
    assert bench.state.ended(table.id) == {0}
    bench.catalog.add_column("sensors", Field("unit", TEXT), to_stream=False)
    assert bench.state.ended(table.id) == {0}
    bench.catalog.add_column("sensors", Field("quality", INT), to_stream=True)
    assert bench.state.ended(table.id) == set()


def test_retention_only_moves_forward_and_only_for_tables_that_are_there(bench: CatalogBench) -> None:
    table = bench.make_sensors()
    for position in (10, 5, 10):
        bench.catalog.retain(table.id, position)
    bench.catalog.retain(99, 10)
    assert (bench.state.retention(table.id), bench.state.retention(99), bench.state.position) == (10, 0, 2)


# -- failure and company


def test_a_full_disk_leaves_state_and_journal_as_they_were(
    bench: CatalogBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.make_sensors()
    bench.catalog.insert_rows("sensors", [(1, "gate", "a")])
    before = everything(bench.state)
    heard: list[Entry] = []
    bench.catalog.listeners.append(heard.append)

    def no_room(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(journal.os, "write", no_room)
        refused("disk_full", bench.catalog.insert_rows, "sensors", [(2, "pier", "b")])
        refused("disk_full", bench.catalog.drop, "table", "sensors")
        refused("disk_full", bench.catalog.create_table, "wind", (), (), READING, TableOptions())
        refused("disk_full", bench.catalog.create_queries, [NewQuery("a", "", {}, ()), NewQuery("b", "", {}, ())])
    assert (everything(bench.state), everything(load_state(bench.folder)), heard) == (before, before, [])
    assert bench.catalog.insert_rows("sensors", [(2, "pier", "b")]) == 1
    assert [e.pos for e in heard] == [3]


def test_a_listener_that_fails_takes_nothing_back(bench: CatalogBench, caplog: pytest.LogCaptureFixture) -> None:
    def fail(entry: Entry) -> None:
        raise RuntimeError("deaf")

    heard: list[str] = []
    bench.catalog.listeners += [fail, lambda entry: heard.append(entry.kind)]
    bench.make_sensors()
    assert ("sensors" in bench.state.tables, heard) == (True, ["create_table"])
    assert "deaf" in caplog.text


def test_an_entry_of_a_newer_version_is_refused_with_everything_beside_it(tmp_path: Path) -> None:
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    bench.close()
    writer = journal.JournalWriter(tmp_path)
    writer.append("teleport", {}, {}, 1)
    writer.close()
    with pytest.raises(PenstockError, match="teleport"):
        bench.open()


def test_a_plan_that_its_maker_changes_later_stays_as_it_was_journalled(bench: CatalogBench) -> None:
    bench.make_sensors()
    plan: dict[str, object] = {"n": 1}
    bench.catalog.create_query("q", "", plan, ("sensors",))
    plan["n"] = 2
    assert bench.state.queries["q"].plan == {"n": 1}


def test_readers_go_through_definitions_while_others_come_and_go(bench: CatalogBench) -> None:
    bench.make_sensors()
    problems: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                for query in bench.state.queries.values():
                    assert query.name
                for table_id in bench.state.tables_by_id:
                    bench.state.journal_positions(table_id)
        except BaseException as problem:
            problems.append(problem)

    readers = [threading.Thread(target=read)]
    for reader in readers:
        reader.start()
    for number in range(40):
        bench.heads[1] = number
        bench.catalog.create_query(f"q{number}", "", {}, ("sensors",))
        if number % 3 == 0:
            bench.catalog.drop("query", f"q{number}")
    done.set()
    for reader in readers:
        reader.join()
    assert problems == []


def test_ten_thousand_sensors_come_in_one_insert_and_are_found(bench: CatalogBench) -> None:
    table = bench.make_sensors()
    rows = [(i, f"place {i}", f"plant/{i}") for i in range(10_000)]
    began = time.process_time()
    assert bench.catalog.insert_rows("sensors", rows) == 10_000
    assert time.process_time() - began < 2
    assert bench.state.rows(table.id).find([pa.array([9_999, 10_000])]).tolist() == [9_999, -1]
    assert bench.state.position == 2


def test_a_thousand_queries_come_one_by_one_in_seconds(bench: CatalogBench) -> None:
    bench.make_sensors()
    plan: dict[str, object] = {"outputs": [["ppm", "DOUBLE", {"column": "ppm"}]] * 10}
    began = time.process_time()
    for number in range(1_000):
        bench.catalog.create_query(f"q{number}", "SELECT s.reading.ppm FROM sensors s", plan, ("sensors",))
    # Of our own time: how long a thousand syncs take is the disk's affair.
    assert time.process_time() - began < 15, "one by one must not mean all again for each"


def test_opening_and_closing_ten_thousand_sensors_is_cheap(bench: CatalogBench) -> None:
    table = bench.make_sensors(connector="tcp")
    bench.catalog.insert_rows("sensors", [(i, "x", f"plant/{i}") for i in range(10_000)])
    sids = list(range(10_000))
    began = time.process_time()
    for _ in range(10):
        bench.catalog.observe(table.id, sids, [])
        bench.catalog.observe(table.id, [], sids)
    assert time.process_time() - began < 2
