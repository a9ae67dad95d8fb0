"""Window joins with ordinary tables over their lives: changes, late readings, restarts, merged results, dropped tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.operators.join import result_files
from tests.support.pipe import BEGAN_US, Pipe

SECOND = 1_000_000
NAMED = (
    "CREATE QUERY named AS SELECT a.n AS a, b.n AS b, z.name AS name FROM t a, t b, zones z WINDOW(a,b) = 1 SECOND"
    " WHERE a.k = b.k AND a.n < b.n AND z.id = a.k"
)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "data", cycles_keep=4)
    made.db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, r STREAM (k INT, n INT)) WITH (time = 'valid', out_of_order = 'accept')"
    )
    made.db.execute("INSERT INTO t VALUES (1, NULL)")
    made.db.execute("CREATE TABLE zones (id INT PRIMARY KEY, name TEXT)")
    yield made
    made.db.stop()


def push(pipe: Pipe, *readings: tuple[int, int], at: int = 0) -> None:
    receipt = pipe.db.push("t", [{"id": 1, "k": k, "n": n, "ts": BEGAN_US + at * SECOND} for k, n in readings])
    assert receipt.accepted == len(readings)


def answer(pipe: Pipe, name: str = "named") -> list[tuple[Any, ...]]:
    pipe.engine.drain()
    table = pipe.db.standing.invoke(name).table
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr)


def test_an_update_never_rewrites_earlier_results(pipe: Pipe) -> None:
    pipe.db.execute(NAMED)
    pipe.db.execute("INSERT INTO zones VALUES (7, 'old')")
    push(pipe, (7, 1), (7, 2))
    assert answer(pipe) == [(1, 2, "old")]
    pipe.db.execute("UPDATE zones SET name = 'new' WHERE id = 7")
    assert answer(pipe) == [(1, 2, "old")]
    push(pipe, (7, 3))
    pipe.db.execute("DELETE FROM zones")
    push(pipe, (7, 4))
    before = [(1, 2, "old"), (1, 3, "new"), (2, 3, "new")]
    assert answer(pipe) == before
    pipe.restart()
    assert answer(pipe) == before


def test_a_row_that_comes_after_the_readings_is_too_late_for_them(pipe: Pipe) -> None:
    pipe.db.execute(NAMED)
    push(pipe, (7, 1), (7, 2))
    pipe.db.execute("INSERT INTO zones VALUES (7, 'late')")
    assert answer(pipe) == []
    # What counts is when a reading was logged, not the time that it carries.
    push(pipe, (7, 3), at=-1)
    assert answer(pipe) == [(1, 3, "late"), (2, 3, "late")]


def test_history_is_read_with_the_rows_of_its_time(pipe: Pipe) -> None:
    for number in range(5):
        pipe.db.execute("DELETE FROM zones")
        pipe.db.execute(f"INSERT INTO zones VALUES (7, 'name {number}')")
        push(pipe, (7, number), at=10 * number)
        push(pipe, (7, number + 100), at=10 * number)
    pipe.db.execute(NAMED + " BEGIN (NOW - 1 HOUR) END (NOW)")
    assert answer(pipe) == [(n, n + 100, f"name {n}") for n in range(5)]


def test_versions_mean_the_same_after_snapshots_merges_and_restarts(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.set_intervals(snapshot_cycles=5)
    monkeypatch.setattr(result_files, "MOST_CHUNKS", 2)
    monkeypatch.setattr(result_files, "INLINE_ROWS", 3)
    pipe.db.execute(NAMED)
    expected = []
    for turn in range(30):
        key, name = turn % 4, f"name {turn}"
        pipe.clock.advance(10 * SECOND)
        pipe.db.execute(f"DELETE FROM zones WHERE id = {key}")
        pipe.db.execute(f"INSERT INTO zones VALUES ({key}, '{name}')")
        push(pipe, (key, 2 * turn), (key, 2 * turn + 1), at=10 * turn)
        expected.append((2 * turn, 2 * turn + 1, name))
        pipe.engine.drain()
        if turn % 7 == 6:
            pipe.restart()
            assert answer(pipe) == sorted(expected, key=repr)
    assert answer(pipe) == sorted(expected, key=repr)


def test_left_join_and_not_exists_answer_at_once(pipe: Pipe) -> None:
    base = "FROM t a, t b{} WINDOW(a,b) = 1 SECOND WHERE a.k = b.k AND a.n < b.n{}"
    left = base.format(" LEFT JOIN zones z ON z.id = a.k", "")
    none = base.format("", " AND NOT EXISTS (SELECT 1 FROM zones z WHERE z.id = b.k)")
    pipe.db.execute(f"CREATE QUERY kept AS SELECT a.n AS a, b.n AS b, z.name AS name {left}")
    pipe.db.execute(f"CREATE QUERY nameless AS SELECT a.n AS a, b.n AS b {none}")
    push(pipe, (7, 1), (7, 2))
    assert answer(pipe, "kept") == [(1, 2, None)]
    pipe.db.execute("INSERT INTO zones VALUES (7, 'known')")
    push(pipe, (7, 3))
    pipe.restart()
    assert answer(pipe, "kept") == [(1, 2, None), (1, 3, "known"), (2, 3, "known")]
    assert answer(pipe, "nameless") == [(1, 2)]


def test_functions_see_columns_of_streams_and_tables(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE FUNCTION label(n INT, name TEXT) RETURNS TEXT LANGUAGE python AS $$ return f'{name}-{n}' $$"
    )
    pipe.db.execute(
        NAMED.replace("z.name AS name", "label(b.n, z.name) AS name") + " AND label(a.k, z.name) <> 'bad-7'"
    )
    pipe.db.execute("INSERT INTO zones VALUES (7, 'bad'), (8, 'good')")
    push(pipe, (7, 1), (7, 2), (8, 3), (8, 4))
    assert answer(pipe) == [(3, 4, "good-4")]


def test_a_table_gets_a_column_while_it_is_joined(pipe: Pipe) -> None:
    pipe.db.execute(NAMED)
    pipe.db.execute("INSERT INTO zones VALUES (7, 'old')")
    push(pipe, (7, 1), (7, 2))
    assert answer(pipe) == [(1, 2, "old")]
    pipe.db.execute("ALTER TABLE zones ADD COLUMN level INT")
    pipe.db.execute("INSERT INTO zones VALUES (8, 'more', 3)")
    push(pipe, (8, 3), (8, 4))
    assert answer(pipe) == [(1, 2, "old"), (3, 4, "more")]
    pipe.restart()
    assert answer(pipe) == [(1, 2, "old"), (3, 4, "more")]


def test_a_table_that_a_join_reads_is_not_dropped_without_it(pipe: Pipe) -> None:
    pipe.db.execute(NAMED)
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute("DROP TABLE zones")
    assert refused.value.condition == "dependents_exist" and 'query "named"' in refused.value.message
    push(pipe, (7, 1), (7, 2))
    pipe.db.execute("DROP TABLE zones CASCADE")
    pipe.engine.drain()
    assert pipe.db.catalog.state.queries == {}
