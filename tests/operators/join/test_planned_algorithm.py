"""The planner says by which algorithm a join runs, all parts of a step do that, and EXPLAIN ANALYZE shows what is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from penstock.operators.join.algorithm_choice import COSTS_FILE
from penstock.operators.join.steps.units import SPREAD_ROWS
from tests.support.pipe import Pipe

JOIN = "SELECT a.k FROM t a, u b WINDOW = 1 SECOND WHERE a.k = b.k BEGIN (NOW - 1 HOUR) END (NOW)"


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path / "data")
    for table in "tu":
        pipe.db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (k INT, v DOUBLE))")
        pipe.db.execute(f"INSERT INTO {table} VALUES (1, NULL)")
    pipe.db.execute(f"CREATE QUERY q AS {JOIN}")
    pipe.engine.drain()
    yield pipe
    pipe.db.stop()


def ran(pipe: Pipe, rows: int = 20) -> list[str]:
    """By which algorithm each part of the next step ran."""
    for table in "tu":
        pipe.db.push(
            table,
            pa.table(
                {
                    "id": pa.array([1] * rows, pa.int32()),
                    "k": pa.array(range(rows), pa.int32()),
                    "v": pa.nulls(rows, pa.float64()),
                }
            ),
        )
    pipe.clock.advance(500_000)
    pipe.engine.cycle()
    pipe.engine.drain()
    report = pipe.db.standing.store.joins.queries[number(pipe)].report
    assert report is not None
    return [part["algorithm"] for part in report[1].values()]


def number(pipe: Pipe, name: str = "q") -> int:
    return pipe.db.catalog.state.queries[name].id


def explained(pipe: Pipe) -> list[str]:
    return [row["plan"] for row in pipe.db.execute("EXPLAIN ANALYZE q").table.to_pylist()]


def test_a_step_runs_by_what_the_file_says_and_by_an_attempt_once(pipe: Pipe) -> None:
    assert ran(pipe) == ["per_side"]
    file = pipe.db.folder.tmp / COSTS_FILE
    file.write_bytes(orjson.dumps({str(number(pipe)): ["hash", ["sorted_runs", 1]]}))
    assert [ran(pipe), ran(pipe), ran(pipe)] == [["sorted_runs"], ["hash"], ["hash"]]
    file.unlink()
    assert ran(pipe) == ["per_side"]


def test_all_parts_of_a_step_run_by_the_same_algorithm(pipe: Pipe) -> None:
    file = pipe.db.folder.tmp / COSTS_FILE
    file.write_bytes(orjson.dumps({str(number(pipe)): ["hash", None]}))
    assert ran(pipe, SPREAD_ROWS // 2) == ["hash", "hash"]
    assert len(pipe.answer("q", "k")) == SPREAD_ROWS // 2


def test_an_algorithm_that_the_join_cannot_run_by_or_that_is_unknown_harms_nothing(pipe: Pipe) -> None:
    pipe.db.execute("CREATE QUERY free AS SELECT a.k FROM t a, u b WINDOW = 1 SECOND WHERE a.k < b.k - 15")
    pipe.engine.drain()
    file, free = pipe.db.folder.tmp / COSTS_FILE, number(pipe, "free")
    file.write_bytes(orjson.dumps({str(free): ["forward_hash", None], str(number(pipe)): ["of another version", None]}))
    assert ran(pipe) == ["per_side"]
    report = pipe.db.standing.store.joins.queries[free].report
    assert report is not None and report[1][0]["algorithm"] == "backward"
    assert len(pipe.answer("free", "k")) == 10 and len(pipe.answer("q", "k")) == 20


def test_explain_analyze_shows_what_is_known_of_each_algorithm(pipe: Pipe) -> None:
    for _ in range(3):
        ran(pipe)
    lines = explained(pipe)
    at = lines.index("join algorithms, expected for a step like the last of 3, and what those that ran took:")
    shown = {line.split(":")[0].strip(): line for line in lines[at + 1 :]}
    assert {"sorted_runs", "per_side", "hash", "forward_hash", "gca", "scan"} <= shown.keys()
    tried = r"  per_side: \d+\.\d\d ms, \d tr(y|ies), the last predicted \d+\.\d\d ms, observed \d+\.\d\d ms, runs now"
    assert re.fullmatch(tried, shown["per_side"])
    assert re.fullmatch(r"  hash: \d+\.\d\d ms, never tried", shown["hash"])


def test_explain_analyze_shows_the_last_switch(pipe: Pipe) -> None:
    choices, known = pipe.db.standing.store.joins.choices, number(pipe)
    for cycle in range(1, 12):
        costs, name = {"sorted_runs": 9.0, "hash": 1.0}, "hash" if cycle in (3, 5) else "sorted_runs"
        said = {"group": known, "algorithm": name, "ms": costs[name], "costs": costs, "measured": True}
        choices.add(cycle, 0, said)
    ran(pipe)
    assert (
        "  last switch: sorted_runs to hash at cycle 8, because for 8 steps it was the cheaper: 1.00 ms, sorted_runs 9.00 ms"
        in (explained(pipe))
    )
    assert ran(pipe) == ["hash"]  # the planner has heard of it


def test_after_a_restart_the_server_learns_about_what_runs_then(pipe: Pipe) -> None:
    (pipe.db.folder.tmp / COSTS_FILE).write_bytes(orjson.dumps({str(number(pipe)): ["hash", None]}))
    assert set(ran(pipe)) == {"hash"}
    pipe.restart()
    (algorithm,) = set(ran(pipe))
    choices = pipe.db.standing.store.joins.choices
    choices.settle()
    assert algorithm != "hash" and choices.groups[number(pipe)].runs == algorithm
