"""The initial scan: which sensors survive a predicate on static columns."""

from __future__ import annotations

import pyarrow as pa

from penstock.expr.expression import Call, Column, Literal
from penstock.streams.sources.manager import surviving
from penstock.types import BOOLEAN, INT, TEXT

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "location": pa.array(["north", "south", None, "north"]),
        "_sid": pa.array([10, 20, 30, 40], pa.int32()),
    }
)
LOCATION = Column("location", TEXT, static=True)


def test_without_a_predicate_every_sensor_survives() -> None:
    assert surviving(None, ROWS).tolist() == [10, 20, 30, 40]


def test_those_for_which_the_predicate_is_true_survive_and_null_is_not_true() -> None:
    assert surviving(Call("eq", (LOCATION, Literal("north", TEXT)), BOOLEAN), ROWS).tolist() == [10, 40]
    assert surviving(Call("ne", (LOCATION, Literal("north", TEXT)), BOOLEAN), ROWS).tolist() == [20]


def test_a_predicate_without_columns_is_all_or_nothing() -> None:
    assert surviving(Literal(True, BOOLEAN), ROWS).tolist() == [10, 20, 30, 40]
    assert surviving(Literal(None, BOOLEAN), ROWS).tolist() == []


def test_a_table_without_sensors_has_no_survivors() -> None:
    predicate = Call("gt", (Column("id", INT, static=True), Literal(2, INT)), BOOLEAN)
    assert surviving(predicate, ROWS.slice(0, 0)).tolist() == []
    assert surviving(predicate, ROWS).tolist() == [30, 40]
