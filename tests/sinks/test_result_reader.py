"""What a sink reads, without a database: gaps, backlogs and answers that are owed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import error
from penstock.sinks.base import SinkBatch
from penstock.sinks.result_reader import AnswerReader, Backlog, Reader, WantedRows
from penstock.views.results import Event


def event(cycle: int) -> Event:
    return Event(cycle, None, pa.table({"x": [cycle]}))


class FakeFollowing:
    def __init__(self, queries: FakeQueries, after: int | None) -> None:
        self._queries = queries
        self.cycle = after if after is not None else 0
        self._first = after is None

    def next(self, timeout_s: float) -> Event | None:
        last = self._queries.last
        if self._first:
            self._first, self.cycle = False, last
            return event(last)
        if self.cycle >= last:
            return None
        if self.cycle + 1 < self._queries.oldest:
            raise error("cycle_gone", cycle=self.cycle + 1, oldest=self._queries.oldest)
        if self.cycle + 1 == self._queries.fails_at:
            raise error("corrupt_segment", segment="s", detail="damaged")
        self.cycle += 1
        return event(self.cycle) if self.cycle not in self._queries.quiet else self.next(timeout_s)

    def close(self) -> None:
        pass


class FakeQueries:
    """Cycles 1, 2, 3 and so on, each with one row unless it is quiet; those before `oldest` are gone."""

    def __init__(self, last: int = 0) -> None:
        self.last = last
        self.oldest = 1
        self.quiet: set[int] = set()
        self.broken = False
        self.fails_at = 0

    def subscribe(self, name: str, from_cycle: int | None, changes: bool, final: bool = False) -> FakeFollowing:
        return FakeFollowing(self, None if from_cycle is None else from_cycle - 1)

    def answer(self, name: str) -> Event:
        if self.broken:
            raise error("over_budget", detail="too many rows")
        return event(self.last)

    def last_cycle(self) -> int:
        return self.last


def reader(queries: FakeQueries, folder: Path, begin: int | None, keep: int = 8, most: int = 1 << 20) -> Reader:
    return Reader(queries, "q", WantedRows(), Backlog(folder, most), keep, begin)


def drained(found: Reader) -> list[tuple[int, bool]]:
    out = []
    while (batch := found.next(0)) is not None:
        out.append((batch.cycle, batch.whole))
        found.finished(batch)
    return out


def test_without_a_place_it_begins_with_the_whole_answer(tmp_path: Path) -> None:
    queries = FakeQueries(5)
    found = reader(queries, tmp_path, None)
    assert drained(found) == [(5, True)]
    queries.last = 7
    assert drained(found) == [(6, False), (7, False)]


def test_quiet_cycles_count_as_read(tmp_path: Path) -> None:
    queries = FakeQueries(9)
    queries.quiet = {8, 9}
    found = reader(queries, tmp_path, 6)
    assert drained(found) == [(7, False)]
    assert found.quiet_upto() == 9


def test_what_is_being_delivered_is_put_aside_before_what_comes_later(tmp_path: Path) -> None:
    queries = FakeQueries(1)
    found = reader(queries, tmp_path, 0)
    held = found.next(0)
    assert held is not None and held.cycle == 1
    queries.last = 10
    found.keep_up()
    assert found.waiting() == 10
    queries.oldest = 9
    killed = reader(queries, tmp_path, 0)  # whose target never took the first
    assert drained(killed) == [(cycle, False) for cycle in range(1, 11)]
    assert (killed.gaps, killed.waiting(), list(tmp_path.iterdir())) == (0, 0, [])


def test_what_was_put_aside_and_delivered_is_not_given_again(tmp_path: Path) -> None:
    queries = FakeQueries(10)
    found = reader(queries, tmp_path, 0)
    found.keep_up()
    for _ in range(4):
        batch = found.next(0)
        assert batch is not None
        found.finished(batch)
    assert drained(reader(queries, tmp_path, 4)) == [(cycle, False) for cycle in range(5, 11)]


def test_the_batch_in_hand_leaves_the_backlog_when_it_is_delivered(tmp_path: Path) -> None:
    queries = FakeQueries(1)
    found = reader(queries, tmp_path, 0)
    held = found.next(0)
    assert held is not None
    queries.last = 6
    found.keep_up()
    found.finished(held)
    assert drained(found) == [(cycle, False) for cycle in range(2, 7)]


def test_what_was_read_before_a_query_failed_is_put_aside(tmp_path: Path) -> None:
    queries = FakeQueries(9)
    queries.fails_at = 7
    found = reader(queries, tmp_path, 0)
    found.keep_up()
    assert found.waiting() == 6
    queries.fails_at = 0
    assert drained(found) == [(cycle, False) for cycle in range(1, 10)]


def test_what_a_full_disk_did_not_take_is_delivered_all_the_same(tmp_path: Path) -> None:
    queries = FakeQueries(9)
    (tmp_path / "taken").touch()  # no folder can be made where a file is
    found = reader(queries, tmp_path / "taken", 0)
    with pytest.raises(OSError):
        found.keep_up()
    assert found.quiet_upto() is None
    assert drained(found) == [(cycle, False) for cycle in range(1, 10)]


def test_a_cycle_that_is_gone_is_a_gap_and_then_comes_the_whole_answer(tmp_path: Path) -> None:
    queries = FakeQueries(3)
    found = reader(queries, tmp_path, 3, most=0)
    assert found.next(0) is None
    queries.last, queries.oldest = 20, 15
    found.keep_up()  # has no room
    assert found.next(0) is None and found.gaps == 1
    assert drained(found) == [(20, True)]


def test_a_place_ahead_of_the_folder_is_a_gap(tmp_path: Path) -> None:
    found = reader(FakeQueries(5), tmp_path, 90)
    assert drained(found) == [(5, True)] and found.gaps == 1


def test_tables_of_another_shape_go_into_a_file_of_their_own(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path, 1 << 20)
    first, second = pa.table({"x": [1, 2]}), pa.table({"y": ["a"]})
    backlog.append([SinkBatch(1, 5, first, True), SinkBatch(2, None, first.slice(0, 0)), SinkBatch(3, 7, second)])
    again = Backlog(tmp_path, 1 << 20)
    assert (again.count, again.last_cycle) == (3, 3)
    seen = []
    while (batch := again.first()) is not None:
        seen.append((batch.cycle, batch.now_us, batch.whole, batch.table.to_pydict()))
        again.remove_first()
    assert seen == [(1, 5, True, {"x": [1, 2]}), (2, None, False, {"x": []}), (3, 7, False, {"y": ["a"]})]


def test_answers_that_were_superseded_are_passed_over() -> None:
    queries = FakeQueries(1)
    found = AnswerReader(queries, "q")
    first = found.next(0)
    assert first is not None and (first.cycle, first.whole) == (1, True)
    queries.last = 9  # while the first is being delivered, and is refused
    again = found.next(0)
    assert again is not None and again.cycle == 9
    assert found.quiet_upto() is None
    found.finished(again)
    assert found.next(0) is None and found.quiet_upto() == 9


def test_an_answer_that_could_not_be_read_is_still_owed() -> None:
    queries = FakeQueries(4)
    queries.broken = True
    found = AnswerReader(queries, "q")
    for _ in range(2):
        with pytest.raises(Exception, match="too many rows"):
            found.next(0)
    queries.broken = False
    batch = found.next(0)
    assert batch is not None and batch.cycle == 4
