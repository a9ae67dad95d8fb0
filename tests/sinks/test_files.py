"""Rolling Parquet files: every row in one file, whenever the server is killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.catalog.model import Sink
from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.sinks import files
from penstock.sinks.base import Place, SinkBatch
from penstock.sinks.registry import parse_options
from tests.sinks.world import eventually, hot_probes, kill, push, sink
from tests.support.manual_clock import ManualClock
from tests.support.pipe import Pipe

CLOCK = ManualClock(1_700_000_000 * SECOND)


def opened(folder: Path, **options: str) -> files.Files:
    made = Sink(7, "out", "hot", "files", {})
    return files.Files(Place(made, "id", folder, CLOCK), parse_options(files.KIND, {"folder": "a/b", **options}))


def batch(cycle: int, *values: float, whole: bool = False) -> SinkBatch:
    return SinkBatch(cycle, None, pa.table({"value": pa.array(values, pa.float64())}), whole)


def finished(folder: Path) -> dict[str, list[Any]]:
    return {path.name: pq.read_table(path)["value"].to_pylist() for path in sorted((folder / "a/b").glob("*.parquet"))}


def test_a_file_is_finished_by_age_and_named_by_its_cycles(tmp_path: Path) -> None:
    out = opened(tmp_path, max_age="10 SECONDS")
    out.deliver(batch(3, 1.0, whole=True))
    CLOCK.advance(5 * SECOND)
    out.deliver(batch(4, 2.0, 3.0))
    assert finished(tmp_path) == {}
    CLOCK.advance(5 * SECOND)
    out.tick()
    assert finished(tmp_path) == {"out-7-000000000003-000000000004.parquet": [1.0, 2.0, 3.0]}
    out.tick()
    out.deliver(batch(9, 4.0))
    out.close()
    assert len(finished(tmp_path)) == 1 and out.position() == 9


def test_a_file_is_finished_by_size(tmp_path: Path) -> None:
    out = opened(tmp_path, max_size="1 B")
    for cycle in (1, 2):
        out.deliver(batch(cycle, float(cycle)))
    out.close()
    assert list(finished(tmp_path).values()) == [[1.0], [2.0]]


def test_what_was_appended_is_found_again_and_not_taken_twice(tmp_path: Path) -> None:
    out = opened(tmp_path)
    out.deliver(batch(1, 1.0))
    out.deliver(batch(2, 2.0))
    out.close()
    again = opened(tmp_path, max_size="1 B")
    assert again.position() == 2
    again.deliver(batch(2, 2.0))
    again.deliver(batch(3, 3.0))
    again.close()
    assert finished(tmp_path) == {"out-7-000000000001-000000000003.parquet": [1.0, 2.0, 3.0]}


def test_a_frame_torn_anywhere_is_cut_off(tmp_path: Path) -> None:
    out = opened(tmp_path)
    out.deliver(batch(1, 1.0))
    path = tmp_path / "a/b/.penstock-7/open.arrows"
    one = path.stat().st_size
    out.deliver(batch(2, 2.0))
    out.close()
    whole = path.read_bytes()
    for length in range(one, len(whole), 7):
        path.write_bytes(whole[:length])
        again = opened(tmp_path)
        assert (again.position(), path.stat().st_size) == (1, one), length
        again.close()


def test_killed_between_the_file_and_emptying_what_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = opened(tmp_path)
    out.deliver(batch(1, 1.0))
    rename = os.rename

    def killed(source: Path, target: Path) -> None:
        if target.name == "open.arrows":
            raise OSError("killed")
        rename(source, target)

    monkeypatch.setattr(os, "rename", killed)
    CLOCK.advance(300 * SECOND)
    with pytest.raises(OSError):
        out.tick()
    monkeypatch.undo()
    again = opened(tmp_path, max_size="1 B")
    again.deliver(batch(2, 2.0))
    again.close()
    assert list(finished(tmp_path).values()) == [[1.0], [2.0]]


def test_an_append_that_failed_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = opened(tmp_path)
    out.deliver(batch(1, 1.0))
    write = os.write
    monkeypatch.setattr(files.os, "write", lambda fd, data: write(fd, data[: len(data) // 2]) and _fail())
    with pytest.raises(OSError):
        out.deliver(batch(2, 2.0))
    monkeypatch.undo()
    out.close()
    again = opened(tmp_path, max_size="1 B")
    assert again.position() == 1
    again.deliver(batch(2, 2.0))
    again.close()
    assert list(finished(tmp_path).values()) == [[1.0, 2.0]]


def _fail() -> int:
    raise OSError("no space")


def test_a_folder_stays_below_the_one_that_is_allowed(tmp_path: Path) -> None:
    for name in ("/etc", "../up", "a/../../b", ""):
        with pytest.raises(PenstockError):
            parse_options(files.KIND, {"folder": name})


@pytest.mark.parametrize("gently", [True, False])
def test_every_row_is_in_one_file_over_restarts(pipe: Pipe, gently: bool) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    pipe.db.execute("CREATE SINK out FOR hot TO files (folder = 'hot', max_age = 1 SECOND)")
    expected = [11.0]
    for value in range(12, 24):
        push(pipe, float(value), 1.0)
        expected.append(float(value))
        if value % 4 == 0:
            eventually(lambda: sink(pipe)["lag"] == 0)
            pipe.clock.advance(SECOND)
        if value % 5 == 0:
            pipe.db.stop() if gently else kill(pipe)
            pipe.open()
    eventually(lambda: sink(pipe)["lag"] == 0)
    pipe.clock.advance(SECOND)  # what was told before this is old enough now
    folder = pipe.folder / "out" / "hot"
    eventually(lambda: len(_values(folder)) == len(expected))
    assert _values(folder) == expected and sink(pipe)["gaps"] == 0
    assert len(list(folder.glob("*.parquet"))) > 2


def _values(folder: Path) -> list[float]:
    return [v for path in sorted(folder.glob("*.parquet")) for v in pq.read_table(path)["value"].to_pylist()]
