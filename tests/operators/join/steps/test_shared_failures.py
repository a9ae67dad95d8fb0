"""Of joins that run as one, each has its own trouble; the others go on as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cycle.commits import CommitRecord
from penstock.operators.join.steps import task
from tests.operators.join.steps.test_join_sharing import committed, sharing_in
from tests.support.pipe import Pipe


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "data")
    for table in "ab":
        made.db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (k INT, v DOUBLE)) WITH (time = 'valid')")
        made.db.execute(f"INSERT INTO {table} VALUES (1, NULL)")
    made.db.execute(
        "CREATE FUNCTION picky(x DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS $$\n"
        "if x == 7:\n    raise ValueError('not seven')\nreturn x\n$$"
    )
    yield made
    made.db.stop()


def _push(pipe: Pipe, *values: float) -> CommitRecord:
    pipe.clock.advance(1_000_000)
    for table in "ab":
        rows = [{"id": 1, "ts": pipe.clock.now_us() + i, "k": 1, "v": v} for i, v in enumerate(values)]
        pipe.db.push(table, rows)
    record = pipe.engine.cycle()
    assert record is not None
    return record


def _failed(record: CommitRecord) -> set[int]:
    kinds = zip(record.results["query"].to_pylist(), record.results["kind"].to_pylist(), strict=True)
    return {query_id for query_id, kind in kinds if kind == "error"}


def _id(pipe: Pipe, name: str) -> int:
    return pipe.db.catalog.state.queries[name].id


def _ask(pipe: Pipe) -> tuple[int, int, int]:
    """Two that cannot fail, and one whose result can."""
    for name, column, least in (("low", "a.v", 0), ("high", "a.v", 5), ("picked", "picky(a.v) AS p", 2)):
        pipe.db.execute(
            f"CREATE QUERY {name} AS SELECT {column} FROM a, b WINDOW = 10 MILLISECONDS WHERE a.k = b.k AND a.v > {least}"
        )
    pipe.engine.drain()
    return _id(pipe, "low"), _id(pipe, "high"), _id(pipe, "picked")


def test_a_function_that_fails_on_a_result_stops_its_own_join_only(pipe: Pipe) -> None:
    low, high, picked = _ask(pipe)
    fine = _push(pipe, 1.0, 6.0)
    assert _failed(fine) == set() and sharing_in(fine) == {low, high, picked}
    assert {q: len(rows) for q, rows in committed(pipe, fine).items()} == {low: 4, high: 2, picked: 2}
    bad = _push(pipe, 1.0, 7.0)
    assert _failed(bad) == {picked}
    assert sharing_in(bad) == {low, high}, "the others still run as one"
    assert {q: len(rows) for q, rows in committed(pipe, bad).items()} == {low: 4, high: 2}


def test_where_the_common_step_fails_each_join_finds_out_for_itself(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    low, high, picked = _ask(pipe)
    whole = task.MemberResults

    def failing(folder: Any, shared: Any, joins: Any, *rest: Any) -> Any:
        if low in joins:
            raise ValueError("no")
        return whole(folder, shared, joins, *rest)

    monkeypatch.setattr(task, "MemberResults", failing)
    record = _push(pipe, 1.0, 6.0)
    assert _failed(record) == {low} and sharing_in(record) == set()
    assert {q: len(rows) for q, rows in committed(pipe, record).items()} == {high: 2, picked: 2}
