"""Which correlated aggregates run in the cycle, and how EXPLAIN tells them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.sql.explain.plan import explain
from penstock.sql.parse import parse_script
from penstock.sql.planning.planner import plan_query
from penstock.sql.statements import Select
from tests.operators.aggregate.test_correlated_groups import VALID, Story
from tests.support.pipe import Pipe

LIKE_LANGUAGE_MD = (
    "SELECT COUNT(*) FROM calls WHERE is_intl AND duration >= 0.9 * (SELECT MAX(duration) FROM calls)"
    " BEGIN (NOW - 14 DAYS) END (NOW)"
)


@pytest.mark.parametrize("type_", ["DOUBLE", "INT", "BIGINT"])
@pytest.mark.parametrize(
    "columns",
    [
        "(id INT PRIMARY KEY, c STREAM (duration {}, is_intl BOOLEAN))",
        "(id INT PRIMARY KEY, c STREAM (duration {}, is_intl BOOLEAN)) " + VALID,
        "(id INT PRIMARY KEY, is_intl BOOLEAN, c STREAM (duration {}))",
    ],
)
def test_the_example_of_the_language_runs_in_the_cycle(columns: str, type_: str, pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.db.execute(f"CREATE TABLE calls {columns.format(type_)}")
    pipe.db.execute(f"CREATE QUERY q AS {LIKE_LANGUAGE_MD}")
    pipe.engine.drain()
    told = explained(pipe, "q")
    assert told.startswith('slices of the stream of "calls", exact'), told
    assert "COUNT where" in told and ">= 0.9 * MAX(duration) and is_intl" in told, told


def explained(pipe: Pipe, name: str) -> str:
    return "\n".join(pipe.db.execute(f"EXPLAIN {name}").table.column("plan").to_pylist())


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        (
            "SELECT kind, COUNT(*) AS n FROM calls WHERE bytes >= (SELECT MAX(bytes) FROM calls) - 9007199254740993"
            " GROUP BY kind HAVING COUNT(*) > 3 ORDER BY n DESC LIMIT 2",
            [
                "groups: kind",
                "subquery: of the rows of all groups",
                "aggregates: COUNT where bytes >= MAX(bytes) - 9007199254740993",
                "having: COUNT where bytes >= MAX(bytes) - 9007199254740993 > 3",
                "sorted: n DESC, 2 rows",
            ],
        ),
        (
            "SELECT zone, SUM(bytes) AS s FROM calls o"
            " WHERE duration > (SELECT AVG(duration) FROM calls i WHERE i.id = o.id) GROUP BY zone",
            ["groups: zone", "subquery: of the rows with the same id", "SUM(bytes) where duration > AVG(duration)"],
        ),
        (
            "SELECT COUNT(*) AS n FROM calls WHERE duration > (SELECT AVG(duration) FROM calls) BEGIN (LAST 9 ROWS)",
            ["window: BEGIN (LAST 9 ROWS)", "groups: one", "COUNT where duration > AVG(duration)"],
        ),
        (
            "SELECT COUNT(*) AS n FROM calls WHERE zone = 'a' AND duration > (SELECT AVG(duration) FROM calls WHERE zone = 'b')",
            ["COUNT where duration > AVG(duration) FILTER (WHERE zone = 'b') and zone = 'a'"],
        ),
    ],
)
def test_explain_says_what_the_subquery_is_about(question: str, lines: list[str], pipes: Callable[..., Pipe]) -> None:
    story = Story(pipes(), 0, "")
    story.pipe.db.execute(f"CREATE QUERY q AS {question}")
    told = explained(story.pipe, "q")
    assert told.startswith('slices of the stream of "calls", exact') and all(line in told for line in lines), told


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (
            "SELECT COUNT(*) AS n FROM calls o WHERE duration > (SELECT AVG(duration) FROM calls i WHERE i.id < o.id)",
            "keys",
        ),
        (
            "SELECT COUNT(*) AS n FROM calls WHERE duration > (SELECT AVG(duration) FROM calls) GROUP BY SLIDE(9 SECONDS, 4 SECONDS)",
            "no whole part of its width",
        ),
        (
            "SELECT COUNT(*) AS n FROM calls WHERE id = 1 AND duration > (SELECT AVG(duration) FROM calls)"
            " BEGIN (LAST 3 ROWS)",
            "about other sensors",
        ),
        (
            "SELECT MEDIAN(duration) AS n FROM calls WHERE duration > (SELECT AVG(duration) FROM calls)",
            "this aggregate",
        ),
    ],
)
def test_what_slices_do_not_cover_says_why(question: str, reason: str, pipes: Callable[..., Pipe]) -> None:
    state = Story(pipes(), 0).pipe.db.catalog.state
    (select,) = parse_script(question if "LAST" in question else f"{question} BEGIN (NOW - 1 DAY) END (NOW)")
    assert isinstance(select, Select)
    told = explain(plan_query(select, state, standing=True, joins=True), state)
    assert told.startswith("Spark SQL:") and reason in told, told
