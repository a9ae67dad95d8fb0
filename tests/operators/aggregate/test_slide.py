"""SLIDE(d) without a step is the last d, asked once and standing."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.support.pipe import Pipe


def test_one_window_per_group_moves_with_now(pipe: Pipe) -> None:
    pipe.probes()
    for name, group in (("places", "GROUP BY place, SLIDE(5 SECONDS)"), ("all_of_them", "GROUP BY SLIDE('5s')")):
        pipe.db.execute(f"CREATE QUERY {name} AS SELECT COUNT(*) AS value FROM probes {group}")
        assert isinstance(plan_from_json(pipe.db.definition(name).plan), AggregatePlan)
    pipe.push(1.0)
    pipe.clock.advance(4_999_000)
    pipe.push(2.0, 3.0, sensor=2)
    pipe.engine.drain()
    assert pipe.answer("places") == [1, 2] and pipe.answer("all_of_them") == [3]
    pipe.clock.advance(2_000_000)
    pipe.engine.drain()
    assert pipe.answer("places") == [2] and pipe.answer("all_of_them") == [2]
    told = pipe.db.execute("EXPLAIN places").table.column("plan").to_pylist()
    assert "  window: BEGIN (NOW - 5s) END (NOW)" in told, told


def test_its_edges_have_names(pipe: Pipe) -> None:
    pipe.probes()
    sql = "SELECT window_start, window_end, MAX(value) AS m FROM probes GROUP BY SLIDE(5 SECONDS)"
    told = "\n".join(pipe.db.execute(f"EXPLAIN {sql}").table.column("plan").to_pylist())
    assert "window_start TIMESTAMP, window_end TIMESTAMP, m DOUBLE" in told, told


@pytest.mark.parametrize(
    ("clause", "condition", "words"),
    [
        ("GROUP BY SLIDE(5 SECONDS) BEGIN (NOW - 1 HOUR) END (NOW)", "invalid_window", "leave out BEGIN"),
        ("GROUP BY SLIDE(0 SECONDS)", "syntax_error", "SLIDE takes a duration"),
        ("GROUP BY SLIDE((SELECT 1))", "syntax_error", "SLIDE takes a duration"),
        ("GROUP BY SLIDE()", "syntax_error", "SLIDE(1 MINUTE, 10 SECONDS)"),
    ],
)
def test_what_means_nothing_is_refused_with_a_caret(clause: str, condition: str, words: str, pipe: Pipe) -> None:
    pipe.probes()
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(f"CREATE QUERY q AS SELECT COUNT(*) FROM probes {clause}")
    assert refused.value.condition == condition and refused.value.line == 1
    assert words in f"{refused.value.message} {refused.value.hint}"


def test_its_window_cannot_be_changed_beside_it(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY q AS SELECT COUNT(*) AS value FROM probes GROUP BY SLIDE(5 SECONDS)")
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute("ALTER QUERY q SET BEGIN (NOW - 1 HOUR)")
    assert refused.value.condition in ("invalid_window", "not_supported")
