"""Commit records and snapshots that are damaged, short or gone: the server starts, and every answer is right."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.cycle.commit_files import read_record
from penstock.errors import PenstockError
from penstock.sinks.result_reader import Backlog, Reader, WantedRows
from penstock.statements.sinks import SinkQueries
from penstock.views.standing_queries import Intervals
from tests.support.pipe import BEGAN_US, Pipe

NAMES = ("seen", "mean", "pairs")


def answers(pipe: Pipe) -> tuple[list[float], ...]:
    return tuple(sorted(pipe.answer(name)) for name in NAMES)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[list[float], ...]]:
    """Thirteen cycles, each with one reading, with snapshots at 5 and 10; the folder and its answers."""
    folder = tmp_path_factory.mktemp("made") / "data"
    pipe = Pipe(folder, intervals=Intervals(snapshot_cycles=5), cycles_keep=100)
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.db.execute("CREATE QUERY mean AS SELECT AVG(value) AS value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.db.execute(
        "CREATE QUERY pairs AS SELECT a.value FROM probes a, probes b WINDOW(a,b) = 1 MINUTE"
        " WHERE a.id = b.id AND a.value < b.value BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    while pipe.db.standing.store.cycle < 13:
        pipe.push(float(pipe.db.standing.store.cycle))
        pipe.engine.cycle()
    before = answers(pipe)
    pipe.db.stop()
    return folder, before


class Damaged(Pipe):
    """A copy of the folder whose files were changed before it is opened."""

    def __init__(self, source: Path, folder: Path, names: list[str], how: Callable[[Path], object]) -> None:
        shutil.copytree(source, folder, symlinks=True)
        for name in names:
            how(folder / "commits" / name)
        super().__init__(folder, cycles_keep=100)

    def open(self) -> None:
        self.clock.set(max(self.clock.now_us(), BEGAN_US + 1_000_000))  # after all readings of the folder
        super().open()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


HOW: dict[str, Callable[[Path], object]] = {
    "flipped": flip,
    "short": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
}
NEWEST, LATE, MIDDLE, EARLY = (f"{cycle:012d}.arrow" for cycle in (13, 12, 7, 2))
FIRST, SECOND = "snapshot-000000000005.arrow", "snapshot-000000000010.arrow"


@pytest.fixture
def damaged(made: tuple[Path, object], tmp_path: Path) -> Iterator[Callable[..., Damaged]]:
    opened: list[Damaged] = []

    def open_damaged(names: list[str], how: str = "flipped") -> Damaged:
        opened.append(Damaged(made[0], tmp_path / "data", names, HOW[how]))
        return opened[-1]

    yield open_damaged
    for pipe in opened:
        pipe.db.stop()


@pytest.mark.parametrize(
    ("names", "how"),
    [
        ([NEWEST], "flipped"),
        ([NEWEST], "short"),
        ([NEWEST], "empty"),
        ([LATE], "flipped"),
        ([LATE], "gone"),
        ([MIDDLE], "flipped"),
        ([SECOND], "empty"),
        ([FIRST, EARLY], "flipped"),
        ([MIDDLE, LATE], "gone"),
        ([EARLY, FIRST, SECOND], "short"),
        ([*(f"{cycle:012d}.arrow" for cycle in range(1, 14)), FIRST, SECOND], "flipped"),
    ],
)
def test_a_start_after_damage_gives_the_answers_of_before(
    made: tuple[object, tuple[list[float], ...]], damaged: Callable[..., Damaged], names: list[str], how: str
) -> None:
    pipe = damaged(names, how)
    pipe.engine.drain()
    assert answers(pipe) == made[1]
    pipe.push(50.0)
    pipe.engine.drain()
    assert 50.0 in pipe.answer("seen")
    after = answers(pipe)
    pipe.restart()
    assert answers(pipe) == after


def test_a_number_that_was_used_is_never_given_again(damaged: Callable[..., Damaged]) -> None:
    pipe = damaged([LATE])
    cycle = pipe.db.standing.store.cycle
    assert cycle > 13
    pipe.restart()
    assert pipe.db.standing.store.cycle > cycle
    kept = {path.name for path in (pipe.folder / "corrupt" / "commits").iterdir()}
    assert kept >= {LATE, NEWEST}


def test_a_subscriber_of_retired_cycles_is_told_that_they_are_gone(damaged: Callable[..., Damaged]) -> None:
    pipe = damaged([LATE])
    for seen in (10, 11, 12, 13):
        with pytest.raises(PenstockError) as caught:
            pipe.db.subscribe("seen", from_cycle=seen + 1).next(1)
        assert caught.value.condition == "cycle_gone"
    first = pipe.db.subscribe("seen").next(1)
    assert first is not None and first.table.num_rows == len(pipe.answer("seen"))


def test_damage_is_named_and_says_whether_a_snapshot_has_healed_it(damaged: Callable[..., Damaged]) -> None:
    pipe = damaged([EARLY])
    (row,) = pipe.db.damage.rows()
    assert (row.file, row.kind, row.healed) == (f"commits/{EARLY}", "commit_record", True)
    assert pipe.db.standing.store.cycle == 14


def test_every_flipped_byte_of_a_record_is_noticed_or_harmless(made: tuple[Path, object], tmp_path: Path) -> None:
    whole = (made[0] / "commits" / NEWEST).read_bytes()
    path = tmp_path / NEWEST
    path.write_bytes(whole)
    known = read_record(path)
    noticed = 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            found = read_record(path)
        except PenstockError as problem:
            assert problem.condition == "corrupt_segment"
            noticed += 1
        else:
            assert found.results.equals(known.results)
            assert (found.cycle, found.start, found.end) == (known.cycle, known.start, known.end)
            assert found.info == known.info
    assert noticed > len(whole) // 2


def test_a_sink_that_had_retired_cycles_goes_on_with_the_whole_answer_and_counts_a_gap(
    damaged: Callable[..., Damaged], tmp_path: Path
) -> None:
    pipe = damaged([LATE])
    reader = Reader(SinkQueries(pipe.db), "seen", WantedRows(), Backlog(tmp_path / "backlog", 1 << 20), 100, begin=13)
    batch = next(found for _ in range(5) if (found := reader.next(0.1)) is not None)
    assert reader.gaps == 1 and batch.whole and batch.cycle > 13
    assert sorted(batch.table.column("value").to_pylist()) == sorted(pipe.answer("seen"))
    reader.close()


def test_a_folder_that_lost_its_id_and_every_record_starts(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.push(1.0)
    pipe.engine.drain()
    pipe.db.stop()
    for path in (pipe.folder / "commits").iterdir():
        flip(path)
    (pipe.folder / "folder_id").unlink()
    pipe.open()
    pipe.engine.drain()
    assert pipe.answer("seen") == [1.0]
    assert any(row.file == "folder_id" for row in pipe.db.damage.rows())
