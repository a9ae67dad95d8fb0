"""Functions that give a STRUCT: fields of one call in the cycle, and a function that breaks its own type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pipe import Pipe


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path / "data")
    pipe.probes()
    yield pipe
    pipe.db.stop()


def test_fields_of_one_call_need_one_call_per_row(pipe: Pipe, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    pipe.db.execute(
        "CREATE FUNCTION judge(v DOUBLE) RETURNS STRUCT<low: DOUBLE, high: DOUBLE> LANGUAGE python AS $$\n"
        f"    with open({str(calls)!r}, 'a') as file:\n"
        "        file.write('x')\n"
        "    return {'low': v - 1, 'high': v + 1}\n"
        "$$"
    )
    pipe.db.execute(
        "CREATE QUERY q AS SELECT (judge(value)).low, (judge(value)).high FROM probes WHERE (judge(value)).low > 0 "
        "BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    pipe.engine.drain()
    pipe.push(5.0, 0.5, 7.0)
    pipe.engine.drain()
    assert sorted(pipe.answer("q", "low")) == [4.0, 6.0] and sorted(pipe.answer("q", "high")) == [6.0, 8.0]
    assert len(calls.read_text()) == 3 + 2, "once per row of the condition, and once per row that is selected"
