"""Window functions and QUALIFY over the groups of an answer."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.clock import SECOND, format_timestamp
from penstock.errors import PenstockError
from penstock.sql.plan import AggregatePlan, plan_from_json, plan_to_json
from tests.support.pipe import BEGAN_US, Pipe

WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"
RANKED = (
    "SELECT place, window_start, SUM(value) AS s, RANK() OVER (PARTITION BY window_start ORDER BY SUM(value) DESC) AS r"
    f" FROM probes GROUP BY place, TUMBLE(5 SECONDS) HAVING COUNT(*) > 1 QUALIFY r <= 2 {WINDOW}"
)


@pytest.fixture
def probes(pipe: Pipe) -> Pipe:
    pipe.probes("WITH (time = 'valid', out_of_order = 'accept')")
    pipe.db.execute("INSERT INTO probes VALUES (3, 'west', NULL), (4, 'east', NULL), (5, NULL, NULL)")
    return pipe


def test_the_top_groups_of_each_pane_are_those_that_loops_find(probes: Pipe) -> None:
    chance, rows = random.Random(4), list[tuple[int, int, float]]()
    places = {1: "north", 2: "south", 3: "west", 4: "east", 5: None}
    probes.db.execute(f"CREATE QUERY q AS {RANKED}")
    for step in range(12):
        new = [
            (chance.randint(1, 5), chance.randint(max(0, step - 8), step), float(chance.randint(0, 3)))
            for _ in range(9)
        ]
        rows += new
        probes.db.push(
            "probes", [{"id": i, "ts": format_timestamp(BEGAN_US + s * SECOND), "value": v} for i, s, v in new]
        )
        probes.engine.drain()
        found = [(r["place"], r["s"], r["r"]) for r in probes.db.invoke("q").table.to_pylist()]
        expected = list[tuple[Any, ...]]()
        for pane in {s // 5 for _, s, _ in rows}:
            sums = {id_: [v for i, s, v in rows if i == id_ and s // 5 == pane] for id_ in places}
            passed = {places[i]: sum(values) for i, values in sums.items() if len(values) > 1}
            ranks = {place: 1 + sum(other > s for other in passed.values()) for place, s in passed.items()}
            expected += [(place, s, ranks[place]) for place, s in passed.items() if ranks[place] <= 2]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
    before = probes.db.invoke("q").table
    probes.restart()
    assert probes.db.invoke("q").table == before


def test_the_heaviest_part_of_the_groups(probes: Pipe) -> None:
    """STREAM's third query: the flows that make the top of the load."""
    probes.db.execute(
        "CREATE QUERY q AS SELECT place, SUM(value) AS load FROM probes GROUP BY place"
        f" QUALIFY PERCENT_RANK() OVER (ORDER BY SUM(value) DESC) <= 0.25 {WINDOW}"
    )
    plan = plan_from_json(probes.db.definition("q").plan)
    assert isinstance(plan, AggregatePlan) and plan_from_json(plan_to_json(plan)) == plan
    probes.db.push("probes", [{"id": i, "ts": format_timestamp(BEGAN_US), "value": float(i % 4)} for i in range(1, 6)])
    probes.engine.drain()
    assert {row["place"] for row in probes.db.invoke("q").table.to_pylist()} == {"west", "south"}
    lines = "\n".join(probes.db.execute("EXPLAIN q").table.column("plan").to_pylist())
    assert "qualify: percent_rank() OVER (ORDER BY sum(value) DESC) <= 0.25" in lines, lines


@pytest.mark.parametrize(
    ("question", "condition", "words"),
    [
        ("SELECT place, COUNT(*) FROM probes GROUP BY place QUALIFY COUNT(*) > 3", "syntax_error", "window function"),
        ("SELECT place FROM probes QUALIFY value > 3", "syntax_error", "window function"),
        ("SELECT place FROM probes QUALIFY RANK() OVER (ORDER BY value)", "type_mismatch", "condition"),
        ("SELECT place, COUNT(*) FROM probes GROUP BY place QUALIFY RANK() OVER (ORDER BY value) < 3", "grouping_error", ""),
        ("SELECT DISTINCT ON (place) place FROM probes QUALIFY RANK() OVER (ORDER BY value) < 3", "not_supported", "QUALIFY"),
        ("SELECT place FROM probes QUALIFY missing < 3", "column_not_found", "missing"),
    ],
)  # fmt: skip
def test_what_qualifies_nothing_is_refused_with_a_caret(
    question: str, condition: str, words: str, probes: Pipe
) -> None:
    with pytest.raises(PenstockError) as refused:
        probes.db.execute(f"CREATE QUERY q AS {question}")
    assert refused.value.condition == condition and refused.value.line == 1, refused.value
    assert words in f"{refused.value.message} {refused.value.hint}"
