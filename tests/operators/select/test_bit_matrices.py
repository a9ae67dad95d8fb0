"""Sheets as the server keeps them: for whom, where, how many, and that nobody notices when they are gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cycle.cut import Limits
from penstock.cycle.folder import DataFolder, place_sheets
from penstock.views.standing_queries import ORPHAN_CYCLES
from tests.support.pipe import Pipe

QUERIES = 80
ROWS = 1000


@pytest.fixture
def pipe(pipes: Callable[..., Pipe]) -> Pipe:
    found = pipes()
    found.probes()
    found.db.register([(f"q{n}", select(n)) for n in range(QUERIES)])
    found.engine.drain()
    return found


def select(number: int) -> str:
    return f"SELECT value FROM probes WHERE value >= {number} BEGIN (NOW - 1 HOUR) END (NOW)"


def check(pipe: Pipe, cycles: int) -> None:
    for number in (0, 7, QUERIES - 1):
        assert sorted(pipe.answer(f"q{number}")) == sorted([float(v) for v in range(number, ROWS)] * cycles)


def push(pipe: Pipe) -> None:
    pipe.push(*(float(v) for v in range(ROWS)))
    pipe.engine.drain()


def sheets(pipe: Pipe) -> list[Path]:
    return sorted(pipe.db.folder.sheets.glob("*.sheet"))


def test_many_dense_queries_share_one_sheet_and_the_record_names_no_query_of_them(pipe: Pipe) -> None:
    push(pipe)
    record = pipe.engine.commits.last
    assert record is not None
    kinds = record.results.column("kind").to_pylist()
    assert kinds.count("sheet") == 1
    assert "match" not in kinds
    assert len(sheets(pipe)) == 1
    check(pipe, 1)
    assert pipe.db.query("q0")["matched"] == ROWS


def test_answers_outlive_their_sheets_and_the_server(pipe: Pipe) -> None:
    push(pipe)
    push(pipe)
    for path in sheets(pipe):
        path.unlink()
    check(pipe, 2)  # what is mapped stays
    pipe.restart()
    assert not sheets(pipe)
    offset = pipe.db.standing.store.offset
    assert offset is not None
    assert offset.fill == {}
    check(pipe, 2)
    push(pipe)
    check(pipe, 3)


def test_beyond_its_memory_a_server_evaluates_what_it_is_asked_for(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(answers_memory_mb=0)
    pipe.probes()
    pipe.db.register([(f"q{n}", select(n)) for n in range(QUERIES)])
    pipe.engine.drain()
    push(pipe)
    push(pipe)
    assert not sheets(pipe)
    check(pipe, 2)


def test_sheets_that_no_window_reaches_are_removed(pipe: Pipe) -> None:
    push(pipe)
    before = sheets(pipe)
    pipe.clock.advance(7_200_000_000)
    push(pipe)
    assert len(sheets(pipe)) == 1
    assert sheets(pipe) != before
    check(pipe, 1)
    assert len(pipe.db.standing.invoke("q0", as_of=pipe.db.standing.store.cycle).table) == ROWS


def test_a_new_query_with_a_short_history_answers_in_its_first_cycle(pipe: Pipe) -> None:
    push(pipe)
    pipe.db.execute(f"CREATE QUERY late AS {select(QUERIES)}")
    record = pipe.engine.cycle(Limits(100_000, 10, history_rows=ROWS))
    assert record is not None
    assert record.end.fill == {}
    assert pipe.answer("late") == [float(v) for v in range(QUERIES, ROWS)]
    pipe.db.execute("ALTER QUERY late SET BEGIN (NOW - 2 HOURS)")
    pipe.engine.cycle(Limits(100_000, 10, history_rows=ROWS))
    assert pipe.answer("late") == [float(v) for v in range(QUERIES, ROWS)]


def test_a_long_history_is_still_read_by_cycles(pipe: Pipe) -> None:
    push(pipe)
    pipe.db.execute(f"CREATE QUERY late AS {select(QUERIES)}")
    record = pipe.engine.cycle(Limits(100_000, 10, history_rows=ROWS - 1))
    assert record is not None
    assert list(record.end.fill.values()) == [(0, ROWS)]


def test_sheets_of_a_cycle_that_never_came_to_be_are_swept(pipe: Pipe) -> None:
    push(pipe)
    table = pipe.db.catalog.state.tables["probes"].id
    orphan = pipe.db.folder.sheets / f"{table}-{0:016d}-abandoned.sheet"
    running = pipe.db.folder.sheets / f"{table}-{ROWS:016d}-running.sheet"
    half, writing = (path.with_name(f".{path.name}") for path in (orphan, running))
    for path in (orphan, running, half, writing):
        path.write_bytes(b"")
    pipe.db.standing._trim()
    store = pipe.db.standing.store
    assert (
        store.matches.orphans == {orphan.name: store.cycle, half.name: store.cycle}
        and orphan.exists()
        and half.exists()
    )
    # A hundred cycles later none of them can be of a cycle that still runs.
    store.matches.orphans = dict.fromkeys(store.matches.orphans, store.cycle - ORPHAN_CYCLES - 1)
    pipe.db.standing._trim()
    assert [path.exists() for path in (orphan, half)] == [False, False]
    assert [path.exists() for path in (running, writing)] == [True, True]
    check(pipe, 1)


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077", "k8s://host"])
def test_on_a_cluster_sheets_lie_in_the_data_folder_that_all_hosts_see(tmp_path: Path, master: str) -> None:
    folder = DataFolder(tmp_path)
    folder.tmp.mkdir()
    place_sheets(folder, master)
    assert folder.sheets.is_dir()
    assert not folder.sheets.is_symlink()
    assert folder.sheets.resolve().is_relative_to(tmp_path.resolve())


def test_dropped_queries_and_tables_take_their_sheets_along(pipe: Pipe) -> None:
    push(pipe)
    pipe.db.execute("DROP TABLE probes CASCADE")
    pipe.engine.drain()
    assert not sheets(pipe)
    assert pipe.db.standing.store.matches.stores == {}
