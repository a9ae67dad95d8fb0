"""`lateness` and the watermark: what is refused, and that it never steps back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.catalog.model import TableOptions
from penstock.catalog.watermark import watermark_of
from penstock.clock import SECOND
from penstock.errors import PenstockError
from tests.support.pipe import BEGAN_US, Pipe

LATE = "WITH (time = 'valid', out_of_order = 'accept', lateness = '10 SECONDS')"


def push(pipe: Pipe, *readings: tuple[int, int]) -> list[str]:
    """Push (sensor, second) pairs; the conditions of those that were refused."""
    rows = [{"id": sensor, "ts": BEGAN_US + at * SECOND, "value": 1.0} for sensor, at in readings]
    receipt = pipe.db.push("probes", rows)
    return [refusal.condition for refusal in receipt.refused]


def watermark(pipe: Pipe) -> int | None:
    pipe.engine.drain()
    mark = pipe.db.standing.feed.last()
    assert mark is not None
    found = mark.watermarks.get(pipe.db.catalog.state.tables["probes"].id)
    return None if found is None else (found - BEGAN_US) // SECOND


def test_the_watermark_is_the_newest_reading_less_the_lateness() -> None:
    valid: Callable[..., Any] = lambda **facts: TableOptions(time="valid", **facts)  # noqa: E731
    assert watermark_of(TableOptions(), 100) == 100
    assert watermark_of(valid(lateness_us=30), 100) == 70
    assert watermark_of(valid(lateness_us=30, watermark_us=90), 100) == 90
    assert watermark_of(valid(), 100) is None and watermark_of(valid(lateness_us=30), None) is None


def test_a_reading_behind_the_watermark_is_refused_and_counted(pipe: Pipe) -> None:
    pipe.probes(LATE)
    assert push(pipe, (1, 0), (1, 20), (2, 10), (2, 9)) == ["too_late"]
    assert pipe.db.ingest.counters("probes")["refused"] == {"too_late": 1}
    pipe.db.execute("INSERT INTO probes VALUES (3, 'new', NULL)")
    assert push(pipe, (3, 9), (3, 12)) == ["too_late"], "a sensor that comes later is no exception"
    pipe.restart()
    assert push(pipe, (2, 9), (2, 11)) == ["too_late"]


def test_another_lateness_never_moves_the_watermark_back(pipe: Pipe) -> None:
    pipe.probes(LATE)
    push(pipe, (1, 20))
    assert watermark(pipe) == 10
    pipe.db.execute("ALTER TABLE probes SET lateness = '1 MINUTE'")
    assert watermark(pipe) == 10
    pipe.restart()
    assert push(pipe, (2, 9), (2, 10)) == ["too_late"] and watermark(pipe) == 10
    pipe.clock.advance(100 * SECOND)
    assert push(pipe, (1, 100), (2, 39), (2, 40)) == ["too_late"] and watermark(pipe) == 40
    pipe.db.execute("ALTER TABLE probes SET lateness '0 SECONDS'")
    assert watermark(pipe) == 100 and push(pipe, (2, 99)) == ["too_late"]


def test_a_table_gets_a_lateness_later(pipe: Pipe) -> None:
    pipe.probes("WITH (time = 'valid', out_of_order = 'accept')")
    push(pipe, (1, 20), (2, 0))
    assert watermark(pipe) is None
    pipe.db.execute("ALTER TABLE probes SET lateness = '5 SECONDS'")
    assert watermark(pipe) == 15 and push(pipe, (2, 14)) == ["too_late"]
    assert pipe.db.table("probes")["options"]["lateness"] == "5s"


@pytest.mark.parametrize(
    ("statement", "condition", "word"),
    [
        ("CREATE TABLE t (id INT PRIMARY KEY, r STREAM (x INT)) WITH (lateness = '1 MINUTE')", "invalid_option", "lat"),
        ("ALTER TABLE probes SET lateness = 'soon'", "invalid_option", "lateness"),
        ("ALTER TABLE probes SET lateness = '-1 SECOND'", "invalid_option", "lateness"),
        ("ALTER TABLE probes SET latenes = '1 SECOND'", "not_supported", "latenes"),
        ("ALTER TABLE plain SET lateness = '1 SECOND'", "invalid_option", "lateness"),
        ("ALTER TABLE prob SET lateness = '1 SECOND'", "table_not_found", "prob"),
    ],
)
def test_bad_input_is_pointed_at(pipe: Pipe, statement: str, condition: str, word: str) -> None:
    pipe.probes(LATE)
    pipe.db.execute("CREATE TABLE plain (id INT PRIMARY KEY, r STREAM (x INT))")
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(statement)
    assert (refused.value.condition, refused.value.column) == (condition, statement.index(word) + 1)
    assert refused.value.hint
