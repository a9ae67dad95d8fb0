"""Aggregates of standing queries, whose slices the kernels keep, against PostgreSQL."""

from __future__ import annotations

from penstock.sql.parse import parse_select
from penstock.sql.plan import AggregatePlan
from penstock.sql.planning.planner import plan_query
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT
from tests.support.pipe import Pipe
from tests.support.postgres_calls import (
    AGGREGATES,
    COLUMNS,
    ROWS,
    Answers,
    differences,
    plain,
    row_values,
)

_TYPES = {"double": DOUBLE, "int64": BIGINT, "int32": INT, "bool": BOOLEAN, "string": TEXT}
_USED = ("g", "h", "k", "i", "j", "b", "d", "o")


def test_slices_answer_as_postgresql_does(pipe: Pipe, postgres_answers: Answers) -> None:
    answers = postgres_answers
    fields = ", ".join(f"{name} {COLUMNS[name][0]}" for name in _USED)
    pipe.db.execute(f"CREATE TABLE v (id INT PRIMARY KEY, r STREAM ({fields})); INSERT INTO v VALUES (1, NULL)")
    kept = {}
    for call in AGGREGATES:
        text = f"SELECT g, {call} AS x FROM v GROUP BY g BEGIN (NOW - 1 HOUR) END (NOW)"
        if "(t)" in call:
            continue
        plan = plan_query(parse_select(text), pipe.db.catalog.state, standing=True, joins=True)
        if isinstance(plan, AggregatePlan):  # the others run as Spark SQL
            pipe.db.execute(f"CREATE QUERY q{len(kept)} AS {text}")
            kept[call] = f"q{len(kept)}"
    values = {name: row_values(name) for name in _USED}
    pipe.clock.advance(1000)
    pipe.db.push("v", [{"id": 1, **{name: values[name][row] for name in _USED}} for row in range(ROWS)])
    pipe.engine.drain()
    differing = {}
    for call, name in kept.items():
        answer = pipe.db.standing.invoke(name).table.sort_by("g").column("x").combine_chunks()
        pairs = differences(answers[call][1], plain(answer), _TYPES[str(answer.type)])
        if pairs:
            differing[call] = pairs
    assert differing == {}
    assert len(kept) > 15, kept
