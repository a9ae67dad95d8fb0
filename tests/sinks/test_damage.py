"""Files of sinks that are damaged: nothing wrong is delivered, nothing is retried for ever, and gaps are counted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

from penstock.sinks.base import SinkBatch
from penstock.sinks.result_reader import Backlog, Reader, WantedRows
from penstock.sinks.runner import Position
from tests.sinks.test_files import batch, finished, opened


class Queries:
    """A query whose answer is 9.0, at cycle 20."""

    cycle = 20
    now_us = None
    table = pa.table({"value": [9.0]})

    def subscribe(self, name: str, from_cycle: int | None, changes: bool, final: bool = False) -> Queries:
        self.begun = from_cycle
        return self

    def next(self, timeout_s: float) -> Queries:
        return self

    def last_cycle(self) -> int:
        return 20

    def close(self) -> None:
        pass


def test_every_flipped_byte_of_the_open_file_costs_no_row_and_brings_no_wrong_one(tmp_path: Path) -> None:
    out = opened(tmp_path / "made")
    for cycle in (1, 2, 3):
        out.deliver(batch(cycle, float(cycle)))
    out.close()
    inside = Path("a/b/.penstock-7/open.arrows")
    whole = (tmp_path / "made" / inside).read_bytes()
    went_back = 0
    for place in range(0, len(whole), 9):
        folder = tmp_path / str(place)
        shutil.copytree(tmp_path / "made", folder)
        (folder / inside).write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        again = opened(folder, max_size="1 B")
        known = again.position() or 0
        assert known == 3 or again.is_damaged, "rows that it had are gone without a word"
        went_back += again.is_damaged
        for cycle in range(known + 1, 5):
            again.deliver(batch(cycle, float(cycle)))
        again.close()
        assert sorted(v for values in finished(folder).values() for v in values) == [1.0, 2.0, 3.0, 4.0]
        shutil.rmtree(folder)
    assert went_back > len(whole) // 20


def test_a_damaged_position_is_known_to_be_damaged(tmp_path: Path) -> None:
    folder = tmp_path / "sinks" / "7"
    folder.mkdir(parents=True)
    Position(folder).move(1234)
    whole = (folder / "position.json").read_bytes()
    for place in range(len(whole)):
        (folder / "position.json").write_bytes(
            whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :]
        )
        found = Position(folder)
        assert (found.cycle, found.is_damaged) in ((1234, False), (None, True))
    (folder / "position.json").write_bytes(b'{"cycle":7}')
    assert Position(folder).cycle == 7, "an older version wrote no checksum"


def test_a_damaged_backlog_is_a_gap_and_the_whole_answer_follows(tmp_path: Path) -> None:
    folder = tmp_path / "sinks" / "7" / "backlog"
    backlog = Backlog(folder, 1 << 20)
    for cycle in (11, 12):
        backlog.append([SinkBatch(cycle, None, pa.table({"value": [float(cycle)]}), False)])
    first = sorted(folder.glob("*.arrow"))[0]
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    queries = Queries()
    reader = Reader(queries, "q", WantedRows(), Backlog(folder, 1 << 20), 100, begin=10)
    found = reader.next(0)
    assert found is not None and found.whole and found.cycle == 20 and queries.begun is None
    assert reader.gaps == 1 and reader.waiting() == 0
    assert len(list((tmp_path / "corrupt" / "sinks" / "7" / "backlog").glob("*.arrow"))) == 2
