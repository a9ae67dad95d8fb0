"""Tables and static rows: which are accepted, what their keys are, and what may be NULL."""

from __future__ import annotations

import pytest

from penstock.catalog.model import Table
from penstock.catalog.state import load_state
from penstock.errors import PenstockError
from penstock.types import DOUBLE, INT, TEXT, Field, parse_type
from tests.catalog.bench import READING, CatalogBench, everything, refused


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
    refused("invalid_definition", bench.catalog.create_table, Table(0, "t", columns, key, READING))


def test_a_sensor_table_without_static_columns_is_one_sensor_from_the_start(bench: CatalogBench) -> None:
    table = bench.catalog.create_table(Table(0, "wind", (), (), READING))
    assert bench.state.rows(table.id).current().select(["_sid", "_address"]).to_pylist() == [
        {"_sid": 0, "_address": None}
    ]
    assert bench.catalog.update_rows("wind", {0: ["tcp://here"]}) == 1
    refused("invalid_definition", bench.catalog.insert_rows, "wind", [("tcp://there",)])
    refused("invalid_definition", bench.catalog.delete_rows, "wind", [0])
    refused("invalid_definition", bench.catalog.add_column, "wind", Field("a", INT), to_stream=False)
    assert bench.state.rows(table.id).find([], rows=1).tolist() == [1]


def test_an_ordinary_table_has_rows_without_addresses_with_or_without_a_key(bench: CatalogBench) -> None:
    bench.catalog.create_table(Table(0, "limits", (Field("gas", TEXT), Field("most", DOUBLE)), ("gas",)))
    bench.catalog.create_table(Table(0, "notes", (Field("text", TEXT),), ()))
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
    bench.catalog.create_table(Table(0, "t", (Field("d", parse_type("DECIMAL(6, 2)")),), ("d",)))
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


def test_a_column_that_is_not_null_is_so_in_every_row(bench: CatalogBench) -> None:
    columns = (Field("id", INT), Field("place", TEXT, required=True), Field("note", TEXT))
    bench.catalog.create_table(Table(0, "rooms", columns, ("id",)))
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
