"""PERCENTILE_DISC and MODE WITHIN GROUP, and EVERY: with FILTER, windows of their own and none of the values."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.support.pipe import Pipe

CALLS = (
    "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY value) AS middle, PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY value DESC) AS other,"
    " PERCENTILE_DISC(0) WITHIN GROUP (ORDER BY value) AS least, PERCENTILE_DISC(1) WITHIN GROUP (ORDER BY value) AS most,"
    " PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY value) FILTER (WHERE value > 2) AS some,"
    " MODE() WITHIN GROUP (ORDER BY value) AS mode, MODE() WITHIN GROUP (ORDER BY value DESC) AS last_mode,"
    " EVERY(value > 0) AS all_above, PERCENTILE_DISC(0.5, 1 SECOND) WITHIN GROUP (ORDER BY value) AS late"
)


def test_each_gives_one_of_the_values(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY q AS SELECT {CALLS} FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    assert isinstance(plan_from_json(pipe.db.definition("q").plan), AggregatePlan)
    pipe.push(4.0, 1.0, 2.0, 1.0, 7.0, 7.0)
    pipe.clock.advance(5_000_000)
    pipe.push(3.0, -1.0)
    pipe.engine.drain()
    # In order: -1 1 1 2 3 4 7 7.
    wanted = {"middle": 2.0, "other": 3.0, "least": -1.0, "most": 7.0, "some": 4.0, "mode": 1.0, "last_mode": 7.0}
    wanted |= {"all_above": False, "late": -1.0}
    assert pipe.db.standing.invoke("q").table.to_pylist() == [wanted]
    assert "percentile_disc_desc(value, 0.5)" in "".join(pipe.db.execute("EXPLAIN q").table.column("plan").to_pylist())


def test_of_no_values_there_is_none(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY q AS SELECT {CALLS} FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.engine.drain()
    (found,) = pipe.db.standing.invoke("q").table.to_pylist()
    assert set(found.values()) == {None}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("PERCENTILE_DISC(1.5) WITHIN GROUP (ORDER BY value)", "between 0 and 1"),
        ("PERCENTILE_DISC(-0.5) WITHIN GROUP (ORDER BY value)", "between 0 and 1"),
    ],
)
def test_a_fraction_that_is_none_is_refused(call: str, words: str, pipe: Pipe) -> None:
    pipe.probes()
    with pytest.raises(PenstockError, match=words) as refused:
        pipe.db.execute(f"CREATE QUERY q AS SELECT {call} FROM probes")
    assert refused.value.line is not None


def test_asked_once_spark_says_the_same(pipe: Pipe) -> None:
    pipe.probes()
    call = "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY value DESC) FILTER (WHERE value > 2)"
    told = "".join(pipe.db.execute(f"EXPLAIN SELECT {call} AS p FROM probes").table.column("plan").to_pylist())
    wanted = (
        "percentile_disc(CAST('0.5' AS DOUBLE)) WITHIN GROUP (ORDER BY `probes`.`value` DESC NULLS FIRST) FILTER(WHERE"
    )
    assert wanted in told, told


def test_no_rollup_keeps_them_and_says_what_it_keeps_instead(pipe: Pipe) -> None:
    pipe.probes("WITH (retention = '1 DAY')")
    for call, instead in (("PERCENTILE_DISC(0.5)", "APPROX_PERCENTILE"), ("MODE()", "APPROX_TOP_K")):
        with pytest.raises(PenstockError) as refused:
            pipe.db.execute(
                f"CREATE ROLLUP r ON probes AS SELECT {call} WITHIN GROUP (ORDER BY value DESC) EVERY 1 MINUTE"
            )
        assert instead in (refused.value.hint or "") and "_DESC" not in refused.value.message, refused.value
