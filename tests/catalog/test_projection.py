"""The projection says what the state says, in SQLite and in PostgreSQL, and its failures cost no definition."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.catalog import projection, projection_tables
from penstock.catalog.model import Function, StreamType, TableOptions
from penstock.catalog.query_definitions import NewQuery
from penstock.errors import PenstockError
from penstock.types import BINARY, DOUBLE, TEXT, Field
from tests.catalog.bench import READING, CatalogBench, expected_projection, stored_projection
from tests.support.postgres import PrivatePostgres

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return "" if request.param == "sqlite" else request.getfixturevalue("postgres").url


@pytest.fixture
def bench(tmp_path: Path, url: str) -> Iterator[CatalogBench]:
    bench = CatalogBench(tmp_path, url)
    yield bench
    bench.close()


def check(bench: CatalogBench) -> None:
    assert stored_projection(bench) == expected_projection(bench.state)


def test_it_follows_every_kind_of_entry(bench: CatalogBench) -> None:
    catalog = bench.catalog
    steps = [
        lambda: catalog.create_stream_type(StreamType("probe", READING.fields, "tcp", {"port": "1"})),
        lambda: bench.make_sensors(),
        lambda: catalog.insert_rows("sensors", [(1, "gate \0 'x'", "a\0b"), (2, None, None), (3, "π", "c")]),
        lambda: catalog.update_rows("sensors", {1: (4, "roof", "d")}),
        lambda: catalog.delete_rows("sensors", [0]),
        lambda: catalog.add_column("sensors", Field("key", BINARY), to_stream=False),
        lambda: catalog.add_column("sensors", Field("raw", BINARY), to_stream=True),
        lambda: catalog.insert_rows("sensors", [(5, "x" * 10_000, "e", b"\x01")][:0]),
        lambda: catalog.insert_rows("sensors", [(5, "x" * 10_000, b"\x01", "e")]),
        lambda: catalog.create_function(Function("f", (), DOUBLE, "return 1.0")),
        lambda: catalog.create_query("q" * 300, "", {"n": "\0"}, ("sensors",), (), ("f",)),
        lambda: catalog.change_query("q" * 300, paused=True),
        lambda: catalog.observe(1, [1], []),
        lambda: catalog.retain(1, 5),
        lambda: catalog.create_queries([NewQuery(f"n{i}", "", {}, ("sensors",)) for i in range(50)]),
        lambda: catalog.create_table("wind", (), (), READING, TableOptions()),
        lambda: catalog.create_table("notes", (Field("text", TEXT),), (), None, TableOptions()),
        lambda: catalog.insert_rows("notes", [("a",), ("a",)]),
        lambda: catalog.drop("table", "sensors", cascade=True),
        lambda: bench.make_sensors(),
        lambda: catalog.drop("stream_type", "probe"),
    ]
    for step in steps:
        step()
        definitions, rows = expected_projection(bench.state)
        rows = {k: (a and a.replace("\0", "\ufffd"), body) for k, (a, body) in rows.items()}
        assert stored_projection(bench) == (definitions, rows)


def test_only_what_an_entry_touches_is_written(bench: CatalogBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.make_sensors()
    bench.catalog.insert_rows("sensors", [(i, "x", "a") for i in range(100)])
    bench.catalog.create_queries([NewQuery(f"q{i}", "", {}, ("sensors",)) for i in range(100)])
    written: list[int] = []
    for name in ("_put_definitions", "_put_rows"):
        real = getattr(projection_tables, name)

        def counting(*arguments, real=real):  # type: ignore[no-untyped-def]
            *before, names = arguments
            written.append(len(list(names)))
            real(*before, names)

        monkeypatch.setattr(projection_tables, name, counting)
    bench.catalog.create_query("one", "", {}, ("sensors",))
    bench.catalog.update_rows("sensors", {7: (7, "y", "a")})
    assert sum(written) == 2
    written.clear()
    bench.catalog.observe(1, [1, 2, 3], [])
    bench.catalog.retain(1, 9)
    assert written == []
    check(bench)


def test_a_restart_finds_it_up_to_date_even_after_entries_that_do_not_show(
    bench: CatalogBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.make_sensors()
    bench.catalog.retain(1, 9)
    bench.close()

    def not_again(*_: object) -> None:
        raise AssertionError("it was up to date")

    with monkeypatch.context() as patched:
        patched.setattr(projection.Projection, "_write_all", not_again)
        bench.open()
        bench.catalog.insert_rows("sensors", [(1, "x", "a")])
    check(bench)


def test_one_that_fell_behind_or_belongs_to_another_folder_is_made_anew(bench: CatalogBench, tmp_path: Path) -> None:
    bench.make_sensors("mine")
    bench.close()
    # The same database, whether by a setting or by a file that was copied.
    other = CatalogBench(tmp_path / "other", bench.url or f"sqlite:///{tmp_path / 'catalog.sqlite'}")
    other.make_sensors("theirs")
    check(other)
    other.close()
    bench.open()
    check(bench)


def test_two_folders_that_share_a_database_never_mix(bench: CatalogBench, tmp_path: Path) -> None:
    other = CatalogBench(tmp_path / "other", bench.url or f"sqlite:///{tmp_path / 'catalog.sqlite'}")
    for number in range(3):
        bench.make_sensors(f"mine_{number}")
        check(bench)
        other.make_sensors(f"theirs_{number}")
        check(other)
    other.close()


def test_another_history_of_the_same_length_is_seen(bench: CatalogBench) -> None:
    journal = bench.folder / "journal" / "journal.jsonl"
    bench.make_sensors("first")
    bench.close()
    journal.write_bytes(b"")
    bench.clock.advance(1)
    real, bench.url = bench.url, "sqlite://"
    bench.open()
    bench.make_sensors("second")
    bench.close()
    bench.url = real
    bench.open()
    check(bench)


def test_a_failure_costs_nothing_and_the_next_entry_catches_up(
    bench: CatalogBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.make_sensors()
    before = stored_projection(bench)
    with monkeypatch.context() as broken:

        def fail(*_: object) -> None:
            raise RuntimeError("no database")

        broken.setattr(projection_tables, "_put_rows", fail)
        broken.setattr(projection_tables, "_put_definitions", fail)
        bench.catalog.insert_rows("sensors", [(1, "x", "a")])
        bench.catalog.create_query("q", "", {}, ("sensors",))
        assert stored_projection(bench) == before
    assert "no database" in caplog.text
    bench.catalog.observe(1, [0], [])
    check(bench)


def test_a_database_that_is_slow_to_fail_is_left_alone_for_a_while(
    bench: CatalogBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[float] = []
    now_s = [1000.0]
    monkeypatch.setattr(projection, "time", SimpleNamespace(monotonic=lambda: now_s[0]))

    def fail(*_: object) -> None:
        calls.append(now_s[0])
        now_s[0] += 2 * projection._SLOW_S
        raise RuntimeError("no answer")

    with monkeypatch.context() as broken:
        broken.setattr(projection_tables, "_put_definitions", fail)
        for number in range(5):
            bench.make_sensors(f"t{number}")
    assert len(calls) == 1
    now_s[0] += projection._PAUSE_S
    bench.make_sensors("later")
    check(bench)


def test_sqlite_that_is_no_database_or_of_another_make_is_made_anew(tmp_path: Path) -> None:
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    bench.close()
    for damage in ("garbage", "other columns"):
        for part in tmp_path.glob("catalog.sqlite*"):
            part.unlink()
        if damage == "garbage":
            (tmp_path / "catalog.sqlite").write_bytes(b"not a database at all" * 100)
        else:
            with sqlite3.connect(tmp_path / "catalog.sqlite") as connection:
                connection.execute("CREATE TABLE penstock_mark (id INTEGER PRIMARY KEY)")
            connection.close()
        bench.open()
        check(bench)
        bench.make_sensors(damage)
        check(bench)
        bench.close()


def test_others_may_read_sqlite_while_it_is_written(tmp_path: Path) -> None:
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    with sqlite3.connect(tmp_path / "catalog.sqlite") as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM penstock_definitions").fetchall() == [(1,)]
        bench.make_sensors("more")
        assert reader.execute("SELECT count(*) FROM penstock_definitions").fetchall() == [(1,)]
        reader.rollback()
        assert reader.execute("SELECT name FROM penstock_definitions").fetchall() == [("more",), ("sensors",)]
    reader.close()
    bench.close()


def test_postgres_may_go_and_come_back(tmp_path: Path, postgres: PrivatePostgres) -> None:
    bench = CatalogBench(tmp_path, postgres.url)
    bench.make_sensors("before")
    postgres.stop()
    try:
        bench.make_sensors("meanwhile")
        bench.reopen()
        bench.make_sensors("still away")
        assert list(bench.state.tables) == ["before", "meanwhile", "still away"]
    finally:
        postgres.start()
    bench.make_sensors("after")
    check(bench)
    bench.close()


def test_the_plain_name_of_postgres_is_enough(tmp_path: Path, postgres: PrivatePostgres) -> None:
    bench = CatalogBench(tmp_path, postgres.url.replace("postgresql+psycopg", "postgresql"))
    bench.make_sensors()
    bench.url = postgres.url
    check(bench)
    bench.close()


@pytest.mark.parametrize("wrong", ["postgres", "nosuch://x", "mysql+nosuch://x"])
def test_an_address_that_is_none_is_refused_with_an_example(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(PenstockError, match="catalog_url") as caught:
        CatalogBench(tmp_path, wrong)
    assert caught.value.condition == "invalid_option"
    assert "postgresql+psycopg://" in (caught.value.hint or "")
