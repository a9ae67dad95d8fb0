"""The log's writer: what is answered is on disk, in order, without gaps."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.damage import damage_of
from penstock.errors import PenstockError
from penstock.settings import Settings
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, list_what_is_there, slices
from penstock.streams.log.stream_log import StreamLog
from penstock.streams.log.table_log import INTERVAL_MAX_S, LogMoved, TableLog, log_schema
from tests.streams.doubles import make_table
from tests.support.log_rows import batch, log_heads, stored
from tests.support.manual_clock import ManualClock
from tests.support.waiting import await_waiting

TABLE = make_table(time="transaction")
VALID = make_table(time="valid", id=4)
LONGER_THAN_ANY_TEST_MS = 90_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


@pytest.fixture
def log(tmp_path: Path, clock: ManualClock) -> Iterator[StreamLog]:
    log = StreamLog(tmp_path, Settings(), clock)
    yield log
    log.close()


def test_a_batch_is_answered_with_the_head_after_it_once_it_is_on_disk(log: StreamLog, tmp_path: Path) -> None:
    assert log.append(TABLE, batch(1.0, 2.0)).result(60) == 2
    assert stored(tmp_path, 3) == [1.0, 2.0]
    assert log.append(TABLE, batch(3.0)).result(60) == 3
    assert log.heads() == {3: 3} == log_heads(tmp_path / "log")


def test_many_batches_share_a_segment_and_keep_their_order(tmp_path: Path, clock: ManualClock) -> None:
    log = StreamLog(tmp_path, Settings(group_commit_ms=LONGER_THAN_ANY_TEST_MS), clock)
    futures = [log.append(TABLE, batch(float(i))) for i in range(300)]
    log.close()
    assert [future.result(60) for future in futures] == list(range(1, 301))
    assert stored(tmp_path, 3) == [float(i) for i in range(300)]
    assert log.commits <= 2  # the first may have been alone


def test_an_idle_log_commits_at_once(tmp_path: Path, clock: ManualClock) -> None:
    log = StreamLog(tmp_path, Settings(group_commit_ms=LONGER_THAN_ANY_TEST_MS), clock)
    log.append(TABLE, batch(1.0)).result(60)
    log.close()


def test_transaction_time_never_steps_back_even_across_a_restart(
    log: StreamLog, tmp_path: Path, clock: ManualClock
) -> None:
    log.append(TABLE, batch(1.0)).result(60)
    clock.set(500)
    log.append(TABLE, batch(2.0)).result(60)
    log.close()
    again = StreamLog(tmp_path, Settings(), clock)
    again.append(TABLE, batch(3.0)).result(60)
    clock.set(2_000)
    again.append(TABLE, batch(4.0)).result(60)
    again.close()
    times = [int(ts.timestamp() * 1_000_000) for ts in stored(tmp_path, 3, "ts")]  # type: ignore[attr-defined]
    assert times == [1_000, 1_000, 1_000, 2_000]


def test_valid_time_rows_keep_their_time_and_carry_their_arrival(log: StreamLog, tmp_path: Path) -> None:
    log.append(VALID, batch(1.0)).result(60)
    (segment,) = list_segments(tmp_path / "log", 4)
    assert (segment.min_ts, segment.max_ts) == (7, 7)
    table = read_slice(slices([segment], 0, 1)[0])
    assert table.schema == log_schema(VALID)
    assert table.column("_at").cast(pa.int64()).to_pylist() == [1_000]


def test_a_restart_goes_on_where_the_log_ended(log: StreamLog, tmp_path: Path, clock: ManualClock) -> None:
    log.append(TABLE, batch(1.0, 2.0)).result(60)
    log.close()
    half = tmp_path / "tmp" / "log-99-1"
    half.write_bytes(b"half")
    again = StreamLog(tmp_path, Settings(), clock)
    assert not half.exists()
    assert again.heads() == {3: 2}
    assert again.append(TABLE, batch(3.0)).result(60) == 3
    again.close()
    assert stored(tmp_path, 3) == [1.0, 2.0, 3.0]


def test_still_flushes_what_is_queued_and_holds_what_comes(log: StreamLog, tmp_path: Path) -> None:
    futures = [log.append(TABLE, batch(float(i))) for i in range(50)]
    later: list[int] = []
    with log.still() as heads:
        assert heads == {3: 50}
        assert all(future.done() for future in futures)
        thread = threading.Thread(target=lambda: later.append(log.append(TABLE, batch(9.0)).result(60)))
        thread.start()
        await_waiting(thread)
        assert not later
        assert log_heads(tmp_path / "log") == {3: 50}
        with log.still() as inner:
            assert inner == heads
    thread.join(60)
    assert later == [51]


def test_still_does_not_wait_for_a_group_to_gather(tmp_path: Path, clock: ManualClock) -> None:
    log = StreamLog(tmp_path, Settings(group_commit_ms=LONGER_THAN_ANY_TEST_MS), clock)
    for number in range(1, 11):
        future = log.append(TABLE, batch(1.0))
        with log.still() as heads:
            assert heads == {3: number} and future.done()
    log.close()


def test_an_append_that_saw_an_older_state_is_sent_back(log: StreamLog) -> None:
    seen = log.seen(3)
    with log.still():
        pass
    with pytest.raises(LogMoved):
        log.append(TABLE, batch(1.0), seen=seen)
    assert log.append(TABLE, batch(1.0), seen=log.seen(3)).result(60) == 1


def test_a_full_queue_makes_senders_wait_and_then_says_so(tmp_path: Path, clock: ManualClock) -> None:
    gate = threading.Event()

    def slow(step: str) -> None:
        if step == "log:begin":
            gate.wait(60)

    log = StreamLog(tmp_path, Settings(queue_max_bytes=1_000), clock, slow, wait_for_room_s=0.05)
    futures = [log.append(TABLE, batch(*[1.0] * 30))]
    with pytest.raises(PenstockError) as caught:
        futures.append(log.append(TABLE, batch(*[2.0] * 30)))
    assert caught.value.condition == "too_busy"
    gate.set()
    wait(futures)
    assert log.append(TABLE, batch(3.0)).result(60) == 31
    assert log._bytes == 0
    log.close()


def test_a_closed_log_takes_nothing_but_has_written_all(tmp_path: Path, clock: ManualClock) -> None:
    log = StreamLog(tmp_path, Settings(), clock)
    future = log.append(TABLE, batch(1.0))
    log.close()
    assert future.result(0) == 1
    with pytest.raises(PenstockError) as caught:
        log.append(TABLE, batch(2.0))
    assert caught.value.condition == "not_ready"


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"x" * len(b)])
def test_a_newest_segment_that_cannot_be_opened_is_moved_away_and_reported(
    log: StreamLog, tmp_path: Path, clock: ManualClock, damage: Callable[[bytes], bytes]
) -> None:
    log.append(TABLE, batch(1.0)).result(60)
    log.append(TABLE, batch(2.0)).result(60)
    log.close()
    newest = list_segments(tmp_path / "log", 3)[-1].path
    newest.write_bytes(damage(newest.read_bytes()))
    again = StreamLog(tmp_path, Settings(), clock)
    assert [row.file for row in damage_of(tmp_path).open_rows()] == [str(newest.relative_to(tmp_path))]
    assert (tmp_path / "corrupt" / "log" / "3" / newest.name).exists()
    assert again.append(TABLE, batch(3.0)).result(60) == 2
    again.close()
    assert stored(tmp_path, 3) == [1.0, 3.0]


def test_positions_that_somebody_has_named_are_never_given_again(
    log: StreamLog, tmp_path: Path, clock: ManualClock
) -> None:
    for value in (1.0, 2.0, 3.0):
        log.append(TABLE, batch(value)).result(60)
        clock.advance(10)
    log.close()
    for segment in list_segments(tmp_path / "log", 3)[1:]:
        segment.path.write_bytes(b"no")
    clock.set(1)
    again = StreamLog(tmp_path, Settings(), clock)
    again.reserve({3: 3, 4: 7})
    again.reserve({3: 2})
    assert again.heads() == {3: 3, 4: 7}
    assert again.append(TABLE, batch(4.0)).result(60) == 4
    again.close()
    with pytest.raises(PenstockError, match="0000000000000001"):
        stored(tmp_path, 3)
    last = list_what_is_there(tmp_path / "log", 3)[-1]
    assert (last.first, last.min_ts) == (3, 1_020), "nor does time begin again where the lost rows had been"


def test_a_damaged_segment_in_the_middle_stops_its_readers_not_the_log(
    log: StreamLog, tmp_path: Path, clock: ManualClock
) -> None:
    for value in (1.0, 2.0, 3.0):
        log.append(TABLE, batch(value)).result(60)
    log.close()
    middle = list_segments(tmp_path / "log", 3)[1].path
    middle.write_bytes(b"no")
    again = StreamLog(tmp_path, Settings(), clock)
    assert again.heads() == {3: 3}
    again.close()
    with pytest.raises(PenstockError, match=middle.name):
        stored(tmp_path, 3)


def test_a_failed_write_fails_everything_queued_for_the_table_and_nothing_else(
    tmp_path: Path, clock: ManualClock
) -> None:
    full = threading.Event()

    def disk(step: str) -> None:
        if step == "log:written" and full.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")

    log = StreamLog(tmp_path, Settings(), clock, disk)
    assert log.append(TABLE, batch(1.0)).result(60) == 1
    seen = log.seen(3)
    full.set()
    for _ in range(3):
        with pytest.raises(PenstockError) as caught:
            log.append(TABLE, batch(2.0)).result(60)
        assert caught.value.condition == "disk_full"
    full.clear()
    assert list((tmp_path / "tmp").iterdir()) == []
    with pytest.raises(LogMoved):
        log.append(TABLE, batch(3.0), seen=seen)
    assert log.append(TABLE, batch(3.0)).result(60) == 2
    log.close()
    assert stored(tmp_path, 3) == [1.0, 3.0]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "tiny"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a disk that is really full needs root, to mount a small tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_really_full_refuses_leaves_nothing_and_recovers(tiny_disk: Path, clock: ManualClock) -> None:
    log = StreamLog(tiny_disk, Settings(), clock)
    log.append(TABLE, batch(1.0)).result(60)
    ballast = tiny_disk / "ballast"
    with pytest.raises(OSError, match="No space"), ballast.open("wb") as file:
        for _ in range(1_000):
            file.write(b"x" * 4_096)
            file.flush()
    for _ in range(3):
        with pytest.raises(PenstockError) as caught:
            log.append(TABLE, batch(*[2.0] * 2_000)).result(60)
        assert caught.value.condition == "disk_full"
    ballast.unlink()
    assert log.append(TABLE, batch(3.0)).result(60) == 2
    log.close()
    assert list((tiny_disk / "tmp").iterdir()) == []
    assert stored(tiny_disk, 3) == [1.0, 3.0]


def test_a_dropped_table_goes_after_a_while(log: StreamLog, tmp_path: Path) -> None:
    log.append(TABLE, batch(1.0)).result(60)
    log.drop(3)
    log.remove_dropped(after_s=60)
    assert (tmp_path / "log" / "3").exists()
    log.remove_dropped(after_s=0)
    assert not (tmp_path / "log" / "3").exists()
    assert log.heads() == {}


def test_the_floor_is_the_oldest_row_on_disk(log: StreamLog, tmp_path: Path) -> None:
    assert log.floor(3) == 0
    log.append(TABLE, batch(1.0)).result(60)
    log.append(TABLE, batch(2.0)).result(60)
    list_segments(tmp_path / "log", 3)[0].path.unlink()
    assert log.floor(3) == 1


def test_a_pile_of_files_slows_commits_down_rather_than_growing(tmp_path: Path, clock: ManualClock) -> None:
    log = StreamLog(tmp_path, Settings(files_max_per_table=20), clock)
    futures = []
    while log.commits < 12:
        futures.append(log.append(TABLE, batch(1.0)))
    log.close()
    assert [future.result(60) for future in futures] == list(range(1, len(futures) + 1))
    assert len(list_segments(tmp_path / "log", 3)) <= 20


def test_the_pause_between_two_commits_doubles_as_files_pile_up() -> None:
    settings = Settings(files_max_per_table=20, group_commit_ms=5)
    log, now_ms = TableLog(), 0
    while now_ms < 600:
        if log.due_at_s(settings) <= now_ms / 1000:
            log.files, log.committed_at_s = log.files + 1, now_ms / 1000
        now_ms += 1
    assert 12 < log.files <= 20
    log.files = 10
    pauses = []
    while log.files < 20:
        pauses.append(log.due_at_s(settings) - log.committed_at_s)
        log.files += 1
    assert pauses == pytest.approx([min(INTERVAL_MAX_S, 0.005 * 2**n) for n in range(10)])
