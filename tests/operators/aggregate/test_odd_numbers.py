"""NaN and infinities in aggregates, as in Spark: NaN is above every number, and a mean of infinities of both signs is NaN."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from tests.support.pipe import Pipe

CALLS = (
    "COUNT(value) AS n, SUM(value) AS s, MIN(value) AS least, MAX(value) AS greatest, STDDEV_POP(value) AS d,"
    " COUNT(DISTINCT value) AS kinds, MEDIAN(value) AS m, CORR(value, id) AS c"
)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([math.inf], (1, math.inf, math.inf, math.inf, math.nan, 1, math.inf, None)),
        ([math.nan], (1, math.nan, math.nan, math.nan, math.nan, 1, math.nan, None)),
        ([1.0, math.nan, math.nan], (3, math.nan, 1.0, math.nan, math.nan, 2, math.nan, math.nan)),
        ([-math.inf, 2.0, math.inf], (3, math.nan, -math.inf, math.inf, math.nan, 3, 2.0, math.nan)),
        ([0.0, -0.0], (2, 0.0, 0.0, 0.0, 0.0, 1, 0.0, None)),
    ],
)
def test_odd_numbers_count_as_in_spark(pipe: Pipe, values: list[float], wanted: tuple[float | None, ...]) -> None:
    pipe.probes()
    window = "BEGIN (NOW - 1 HOUR) END (NOW)"
    pipe.db.execute(f"CREATE QUERY q AS SELECT {CALLS} FROM probes {window}")
    pipe.db.execute(f"CREATE QUERY t AS SELECT TWA(value) AS t FROM probes {window}")
    for value in values:
        pipe.clock.advance(1000)
        pipe.db.push("probes", pa.table({"id": pa.array([1], pa.int32()), "value": pa.array([value])}))
    pipe.clock.advance(1000)
    pipe.engine.drain()
    (found,) = pipe.db.standing.invoke("q").table.to_pylist()
    assert list(found.values()) == pytest.approx(wanted, nan_ok=True)
    assert pipe.answer("t", "t") == pytest.approx([sum(values) / len(values)], nan_ok=True)
