"""A full disk, a listener that fails, entries of a newer version, others at the same time: state and journal stay one."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from penstock.catalog import journal
from penstock.catalog.model import Entry, Table
from penstock.catalog.state import CatalogState, load_state
from penstock.errors import PenstockError
from tests.catalog.bench import READING, CatalogBench, everything, refused
from tests.support.new_query import new_query


def test_entries_before_one_that_nobody_understands_are_taken_in_once(bench: CatalogBench) -> None:
    bench.make_sensors()
    bench.catalog.insert_rows("sensors", [(1, "a", None), (2, "b", None)])
    bench.catalog.create_queries([new_query("q", "", {}, ("sensors",))])
    entries = journal.JournalReader(bench.folder).read()
    strange = Entry(len(entries) + 1, "create_moon", entries[-1].heads, entries[-1].at_us, {})
    state = CatalogState()
    with pytest.raises(PenstockError, match="create_moon"):
        state.apply_many([*entries, strange])
    assert everything(state) == everything(bench.state)
    assert state.position == bench.state.position


def test_a_full_disk_leaves_state_and_journal_as_they_were(
    bench: CatalogBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.make_sensors()
    bench.catalog.insert_rows("sensors", [(1, "gate", "a")])
    before = everything(bench.state)
    heard: list[Entry] = []
    bench.catalog.listeners.append(heard.append)

    def no_room(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(journal.os, "write", no_room)
        refused("disk_full", bench.catalog.insert_rows, "sensors", [(2, "pier", "b")])
        refused("disk_full", bench.catalog.drop, "table", ["sensors"])
        refused("disk_full", bench.catalog.create_table, Table(0, "wind", (), (), READING))
        refused("disk_full", bench.catalog.create_queries, [new_query("a", "", {}, ()), new_query("b", "", {}, ())])
    assert (everything(bench.state), everything(load_state(bench.folder)), heard) == (before, before, [])
    assert bench.catalog.insert_rows("sensors", [(2, "pier", "b")]) == 1
    assert [e.pos for e in heard] == [3]


def test_a_listener_that_fails_takes_nothing_back(bench: CatalogBench, caplog: pytest.LogCaptureFixture) -> None:
    def fail(entry: Entry) -> None:
        raise RuntimeError("deaf")

    heard: list[str] = []
    bench.catalog.listeners += [fail, lambda entry: heard.append(entry.kind)]
    bench.make_sensors()
    assert ("sensors" in bench.state.tables, heard) == (True, ["create_table"])
    assert "deaf" in caplog.text


def test_an_entry_of_a_newer_version_is_refused_with_everything_beside_it(tmp_path: Path) -> None:
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    bench.close()
    writer = journal.JournalWriter(tmp_path)
    writer.append([("teleport", {})], {}, 1)
    writer.close()
    with pytest.raises(PenstockError, match="teleport"):
        bench.open()


def test_a_plan_that_its_maker_changes_later_stays_as_it_was_journalled(bench: CatalogBench) -> None:
    bench.make_sensors()
    plan: dict[str, object] = {"n": 1}
    bench.catalog.create_queries([new_query("q", "", plan, ("sensors",))])
    plan["n"] = 2
    assert bench.state.queries["q"].plan == {"n": 1}


def test_readers_go_through_definitions_while_others_come_and_go(bench: CatalogBench) -> None:
    bench.make_sensors()
    problems: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                for query in bench.state.queries.values():
                    assert query.name
                for table_id in bench.state.tables_by_id:
                    bench.state.journal_positions(table_id)
        except BaseException as problem:
            problems.append(problem)

    readers = [threading.Thread(target=read)]
    for reader in readers:
        reader.start()
    for number in range(40):
        bench.heads[1] = number
        bench.catalog.create_queries([new_query(f"q{number}", "", {}, ("sensors",))])
        if number % 3 == 0:
            bench.catalog.drop("query", [f"q{number}"])
    done.set()
    for reader in readers:
        reader.join()
    assert problems == []
