"""DATE_TRUNC and EXTRACT against the standard library's calendar, from the year 1 to 9999 and around every turn of a year."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Call, Column, Literal
from penstock.functions.times import PARTS, UNITS
from penstock.types import DOUBLE, INT, TEXT, TIMESTAMP
from tests.expr.reference import value_of

T = Column("t", TIMESTAMP)
EPOCH, LAST = datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)


def moments() -> list[int | None]:
    chance = random.Random(4)
    turns = [datetime(year, 1, 1) + timedelta(days=d) for year in range(1880, 2110) for d in (-3, -1, 0, 2)]
    leaps = [datetime(year, month, 1) for year in (1, 1600, 1900, 1969, 1970, 2000, 2024, 2100) for month in (2, 3, 12)]
    known = [(when - EPOCH) // timedelta(microseconds=1) for when in (*turns, *leaps, LAST)]
    low, high = (datetime(1, 1, 8) - EPOCH) // timedelta(microseconds=1), known[-1]
    return [None, *known, *(us - 1 for us in known[:-30]), *(chance.randint(low, high) for _ in range(300))]


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_is_that_of_the_calendar(part: str) -> None:
    type_ = DOUBLE if part in ("EPOCH", "SECOND") else INT
    check(Call("extract", (Literal(part, TEXT), T), type_))


@pytest.mark.parametrize("unit", sorted(UNITS))
def test_a_timestamp_is_cut_to_the_beginning_of_its_unit(unit: str) -> None:
    check(Call("date_trunc", (Literal(unit, TEXT), T), TIMESTAMP))


def check(call: Call) -> None:
    asked = moments()
    found = evaluate(call, {"t": pa.array(asked, pa.int64()).cast(TIMESTAMP.to_arrow())}, len(asked))
    assert found.type == call.type.to_arrow()
    told = found.cast(pa.int64()).to_pylist() if call.type == TIMESTAMP else found.to_pylist()
    for us, value in zip(asked, told, strict=True):
        assert value == value_of(call, {"t": us}), us
