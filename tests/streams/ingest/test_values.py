"""What a reading may say, in JSON, as text and in Arrow, and what is refused of it."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog.model import StreamColumn, Table
from penstock.errors import PenstockError
from penstock.types import BINARY, BOOLEAN, DOUBLE, INT, TEXT, TIMESTAMP, Field, parse_type
from tests.support.ingest_bench import NOW, Bench, Make, refusals


@pytest.mark.parametrize(
    "ts",
    [
        NOW - 5,
        float(NOW - 6),
        "2025-11-15T06:59:59.999995Z",
        "2025-11-15 06:59:59.999995",
        "2025-11-15T07:59:59.999995+01:00",
        datetime(2025, 11, 15, 6, 59, 59, 999995, tzinfo=UTC),
    ],
)
def test_a_time_may_be_text_or_microseconds(make: Make, ts: Any) -> None:
    bench = make()
    receipt = bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1, "ts": ts}])
    assert receipt.accepted == 1, receipt
    assert bench.stored("ts")[0][0] in (NOW - 5, NOW - 6)


def test_fields_may_be_named_in_full_and_must_be_where_a_static_column_has_the_name(tmp_path: Path) -> None:
    table = Table(3, "probes", (Field("id", INT),), ("id",), StreamColumn("reading", (Field("id", INT),)))
    bench = Bench(tmp_path, table)
    assert bench.push([{"id": 2, "reading.id": 7}]).accepted == 1
    assert refusals(bench.push([{"id": 2}])) == [(0, "missing_field")]
    bench.log.close()
    assert bench.stored("_vid", "id") == [(1, 7)]


def test_an_arrow_table_with_the_wrong_columns_is_refused_as_a_whole(make: Make) -> None:
    bench = make()
    with pytest.raises(PenstockError, match="ppn") as caught:
        bench.push(pa.table({"sensor_id": [1], "ppn": [1.0], "seq": [1]}))
    assert (caught.value.condition, caught.value.hint) == ("unknown_field", 'did you mean "ppm"?')
    with pytest.raises(PenstockError) as caught:
        bench.push(pa.table({"sensor_id": [1], "ppm": [1.0]}))
    assert caught.value.condition == "missing_field"


def test_arrow_values_that_do_not_fit_are_refused_one_by_one(make: Make) -> None:
    bench = make()
    receipt = bench.push(
        pa.table({"sensor_id": [1, 1, 1], "ppm": [1, float("nan"), float("inf")], "seq": [1, 2**40, 3]})
    )
    assert refusals(receipt) == [(1, "invalid_value")]
    assert bench.stored("ppm", "seq") == [(1.0, 1), (float("inf"), 3)]


def test_text_columns_as_csv_gives_them_are_read_by_the_tables_types(make: Make) -> None:
    bench = make()
    receipt = bench.push(
        pa.table(
            {
                "sensor_id": ["1", "2", "x", "1"],
                "ppm": ["1.5", None, "2", "high"],
                "seq": ["1", "2", "3", "4"],
                "ts": ["2025-11-15T06:00:00Z"] * 4,
            }
        )
    )
    assert refusals(receipt) == [(2, "invalid_value"), (3, "invalid_value")]
    assert bench.stored("_vid", "ppm", "seq") == [(0, 1.5, 1), (1, None, 2)]


FIELDS = (
    Field("b", BOOLEAN),
    Field("t", TEXT),
    Field("at", TIMESTAMP),
    Field("raw", BINARY),
    Field("price", parse_type("DECIMAL(6, 2)")),
    Field("list", parse_type("ARRAY<INT>")),
    Field("pair", parse_type("STRUCT<x: INT, y: DOUBLE>")),
)
WHOLE = {
    "sensor_id": 1,
    "b": True,
    "t": "ä",
    "at": "2025-01-01T00:00:00Z",
    "raw": "aGk=",
    "price": 12.345,
    "list": [1, None],
    "pair": {"x": 1, "y": 2},
}


def test_every_type_is_read_from_json(make: Make) -> None:
    bench = make(fields=FIELDS)
    assert bench.push([WHOLE, {name: (1 if name == "sensor_id" else None) for name in WHOLE}]).accepted == 2
    first, second = bench.stored(*(field.name for field in FIELDS))
    at = datetime(2025, 1, 1, tzinfo=UTC)
    assert first == (True, "ä", at, b"hi", Decimal("12.35"), [1, None], {"x": 1, "y": 2.0})
    assert second == (None,) * 7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("b", 1),
        ("t", 5),
        ("t", "\ud800"),
        ("at", "soon"),
        ("at", 10**18),
        ("raw", "%%"),
        ("price", 10_000),
        ("price", "NaN"),
        ("list", 5),
        ("list", ["x"]),
        ("pair", {"x": 1}),
        ("pair", {"x": 1, "y": 2, "z": 3}),
    ],
)
def test_a_value_of_the_wrong_type_refuses_its_reading_only(make: Make, name: str, value: Any) -> None:
    bench = make(fields=FIELDS)
    receipt = bench.push([WHOLE, {**WHOLE, name: value}, WHOLE])
    assert refusals(receipt) == [(1, "invalid_value")]
    assert receipt.refused[0].message.startswith(f'field "{name}": ')


def test_a_reading_without_a_value_where_one_must_be_is_refused_and_counted(make: Make) -> None:
    bench = make(fields=(Field("ppm", DOUBLE, required=True), Field("seq", INT)))
    good = {"sensor_id": 1, "ppm": 1.0, "seq": None}
    receipt = bench.push([good, {**good, "ppm": None}, {**good, "ppm": "high"}, good])
    assert refusals(receipt) == [(1, "not_null_violation"), (2, "invalid_value")]
    assert receipt.refused[0].message == 'column "ppm" of "probes" cannot be NULL'
    ids, seqs = pa.array([1, 2, 1], pa.int32()), pa.array([1, 2, 3], pa.int32())
    sent = pa.table({"sensor_id": ids, "ppm": pa.array([None, 2.0, None]), "seq": seqs})
    assert refusals(bench.push(sent)) == [(0, "not_null_violation"), (2, "not_null_violation")]
    columns = [pa.array([None, 4.0]), pa.array([1, 2], pa.int32())]
    resolved = bench.ingest.push_resolved(bench.table, np.array([0, 1], np.int32), None, columns).result(60)
    assert refusals(resolved) == [(0, "not_null_violation")]
    assert bench.stored("ppm") == [(1.0,), (1.0,), (2.0,), (4.0,)]
    assert bench.ingest.counters("probes")["refused"] == {"not_null_violation": 4, "invalid_value": 1}
