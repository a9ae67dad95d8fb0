"""NOT NULL in SQL: rows and readings without the value are refused by name."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from tests.support.pipe import Pipe


def test_rows_and_readings_have_a_value_where_the_definition_says_so(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE TABLE pumps (id INT PRIMARY KEY, place TEXT NOT NULL, flow STREAM (litres DOUBLE NOT NULL, note TEXT))"
    )
    pipe.db.execute("INSERT INTO pumps VALUES (1, 'hall', NULL)")
    for change in (
        "INSERT INTO pumps VALUES (2, NULL, NULL)",
        "INSERT INTO pumps (id) VALUES (2)",
        "UPDATE pumps SET place = NULL",
    ):
        with pytest.raises(PenstockError) as caught:
            pipe.db.execute(change)
        assert caught.value.condition == "not_null_violation" and '"place" of "pumps"' in caught.value.message
    pipe.restart()
    receipt = pipe.db.push("pumps", [{"id": 1, "litres": n, "note": None} for n in (1.0, None, 2.0)])
    assert receipt.accepted == 2
    assert [(r.index, r.condition) for r in receipt.refused] == [(1, "not_null_violation")]
