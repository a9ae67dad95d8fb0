"""Classes of queries: who may be how important, and which queries fail first where memory is short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.catalog.model import PlanText, QueryDefinition
from penstock.catalog.priorities import deferrable
from penstock.errors import PenstockError
from tests.support.pipe import Pipe

WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"


def priorities(pipe: Pipe) -> dict[str, str]:
    return {row["name"]: row["priority"] for row in pipe.db.queries()}


def test_a_query_is_of_class_normal_until_a_statement_says_otherwise_and_across_restarts(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY a AS SELECT value FROM probes {WINDOW}")
    pipe.db.execute(f"CREATE QUERY b WITH (priority = 'high') AS SELECT value FROM probes {WINDOW}")
    pipe.db.register([{"name": "c", "sql": f"SELECT value FROM probes {WINDOW}", "priority": "low"}])
    pipe.db.execute("ALTER QUERY a SET PRIORITY low; ALTER QUERY c SET PRIORITY = normal")
    for _ in range(2):
        assert priorities(pipe) == {"a": "low", "b": "high", "c": "normal"}
        pipe.restart()
    pipe.engine.drain()
    assert "priority low: it stands behind the cycles" in str(pipe.db.execute("EXPLAIN a").table[0].to_pylist())
    assert "priority high" in str(pipe.db.execute("EXPLAIN b").table[0].to_pylist())


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE QUERY q WITH (priority = 'lowest') AS SELECT value FROM probes {WINDOW}",
        "ALTER QUERY a SET PRIORITY urgent",
    ],
)
def test_a_word_that_is_no_priority_is_refused_with_a_caret(pipe: Pipe, statement: str) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY a AS SELECT value FROM probes {WINDOW}")
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(statement)
    assert refused.value.condition == "invalid_option" and "^" in refused.value.render()


def test_a_query_is_at_least_as_important_as_its_readers(pipe: Pipe) -> None:
    pipe.probes()
    for name in "abc":
        pipe.db.execute(f"CREATE QUERY {name} WITH (priority = 'low') AS SELECT id, value FROM probes {WINDOW}")
    pipe.engine.drain()
    mean = "AS SELECT AVG(value) AS m FROM {} BEGIN (NOW - 1 HOUR) END (NOW)"
    pipe.db.execute(f"CREATE QUERY reader WITH (priority = 'low') {mean.format('a')}")
    pipe.db.execute(f"CREATE QUERY alarm WITH (priority = 'high') {mean.format('b')}")
    assert priorities(pipe) == {"a": "normal", "b": "high", "c": "low", "reader": "low", "alarm": "high"}
    with pytest.raises(PenstockError, match='query "reader" of class low reads "a"'):
        pipe.db.execute("ALTER QUERY a SET PRIORITY low")
    pipe.db.execute("ALTER QUERY reader SET PRIORITY high")
    assert priorities(pipe)["a"] == "high"
    pipe.db.execute("DROP QUERY reader; ALTER QUERY a SET PRIORITY low")
    assert priorities(pipe)["a"] == "low"


@pytest.mark.parametrize(
    ("big", "small"), [("high", "normal"), ("normal", "low"), ("normal", "normal"), ("low", "high")]
)
def test_where_memory_is_short_the_least_important_query_fails_and_of_equals_the_largest(
    pipes: Callable[..., Pipe], big: str, small: str
) -> None:
    pipe = pipes(slices_memory_mb=1)
    pipe.probes()
    groups = "AS SELECT value, COUNT(*) AS n FROM probes {} GROUP BY value " + WINDOW
    pipe.db.execute(f"CREATE QUERY big WITH (priority = '{big}') {groups.format('')}")
    pipe.db.execute(f"CREATE QUERY small WITH (priority = '{small}') {groups.format('WHERE value < 15000')}")
    pipe.engine.drain()
    pipe.push(*(float(n) for n in range(20_000)))  # either fits, and both do not
    pipe.engine.drain()
    failed = [row["name"] for row in pipe.db.queries() if row["state"] == "FAILED"]
    assert failed == (["big"] if big == small or big == "low" else ["small"])


def test_queries_that_call_functions_may_stand_behind_beside_class_high_unless_they_are_read() -> None:
    def query(number: int, **facts: Any) -> QueryDefinition:
        return QueryDefinition(number, f"q{number}", "", PlanText(b"", b""), (), **facts)

    queries = [
        query(1, reads_functions=("odd",)),
        query(2),
        query(3, reads_functions=("odd",)),
        query(4, priority="low"),
        query(5, reads_queries=("q3",)),
    ]
    assert deferrable(queries) == {4}
    assert deferrable([*queries, query(6, priority="high", reads_functions=("odd",))]) == {1, 4}
