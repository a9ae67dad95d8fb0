"""One byte of any file of a data folder flips while the server is down: it starts, and no answer is wrong.

An answer is the one of before, or the error that names the damage. The file of users is the exception: see tests/security.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.cycle import definitions
from penstock.errors import PenstockError
from penstock.operators.join.steps import results
from penstock.streams.log import checksums
from penstock.views.standing_queries import Intervals
from tests.support.pipe import BEGAN_US, Pipe

FLIPS = 7  # bytes of each file, spread over it
QUERIES = {
    "seen": "SELECT id, place, value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)",
    "recent": "SELECT value FROM probes WHERE value > 3 BEGIN (NOW - 33 SECONDS) END (NOW)",
    "mean": "SELECT id, AVG(value) AS value FROM probes GROUP BY id BEGIN (NOW - 1 HOUR) END (NOW)",
    "pairs": "SELECT a.value FROM probes a, probes b WINDOW(a,b) = 1 MINUTE WHERE a.id = b.id AND a.value < b.value"
    " BEGIN (NOW - 1 HOUR) END (NOW)",
    "other": "SELECT value FROM calm BEGIN (NOW - 1 HOUR) END (NOW)",
}


@dataclass(frozen=True)
class Made:
    folder: Path
    answers: dict[str, Any]


class Opened(Pipe):
    """A folder on a clock that stands after all of its readings."""

    def open(self) -> None:
        self.clock.set(BEGAN_US + 60_000_000)
        super().open()


def settings() -> dict[str, Any]:
    return {"cycles_keep": 100, "compact_after_segments": 2}


def answers(pipe: Pipe) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in QUERIES:
        try:
            found[name] = sorted(map(str, pipe.db.invoke(name).table.to_pylist()))
        except PenstockError as problem:
            found[name] = problem.condition
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "INLINE_ROWS", 0)
        pipe = Pipe(tmp_path_factory.mktemp("made") / "data", intervals=Intervals(snapshot_cycles=5), **settings())
        pipe.probes()
        pipe.db.execute("CREATE TABLE calm (id INT PRIMARY KEY, reading STREAM (value DOUBLE))")
        pipe.db.execute("INSERT INTO calm VALUES (1, NULL)")
        for name, sql in QUERIES.items():
            pipe.db.execute(f"CREATE QUERY {name} AS {sql}")
        for number in range(8):
            pipe.clock.advance(5_000_000)
            pipe.db.push("probes", [{"id": 1 + number % 2, "value": float(number)}], idempotency_key=f"key {number}")
            pipe.db.push("calm", [{"id": 1, "value": float(number)}])
            pipe.engine.cycle()
            if number == 5:
                for _ in range(2):
                    pipe.db.housekeeper.tend(pipe.db.catalog.state.tables["probes"].id)
        pipe.db.execute("INSERT INTO probes VALUES (3, 'west', NULL)")
        pipe.engine.drain()
        pipe.db.stop()
        pipe = Opened(pipe.folder, **settings())
        pipe.engine.drain()
        made = Made(pipe.folder, answers(pipe))
        pipe.db.stop()
    assert len(made.answers["seen"]) == 8 and len(made.answers["pairs"]) > 5
    return made


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[Path], Opened]]:
    found: list[Opened] = []

    def open_folder(folder: Path) -> Opened:
        # A new server's workers have read nothing of the folder yet.
        definitions._CACHE.clear()
        definitions._AHEAD.clear()
        checksums._seen.clear()
        found.append(Opened(folder, **settings()))
        return found[-1]

    yield open_folder
    for pipe in found:
        pipe.db.stop()


KINDS = {
    "commit record": "commits/0*.arrow",
    "snapshot": "commits/snapshot-*.arrow",
    "hot segment": "log/1/*.arrow",
    "parquet segment": "log/1/*.parquet",
    "results": "results/*.arrow",
    "journal": "journal/*.jsonl",
    "catalog snapshot": "journal/snapshot-*",
    "keys": "streams/1/keys.jsonl",
    "newest": "streams/1/newest.arrow",
    "usage": "usage.json",
    "folder id": "folder_id",
    "format": "format_version",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_byte_stops_no_start_and_makes_no_answer_wrong(
    made: Made, opened: Callable[[Path], Opened], tmp_path: Path, kind: str
) -> None:
    files = [path for path in sorted(made.folder.glob(KINDS[kind])) if path.stat().st_size]
    assert files
    victim = files[-1].relative_to(made.folder)
    size = files[-1].stat().st_size
    for number in range(min(FLIPS, size)):
        place = number * (size - 1) // max(1, min(FLIPS, size) - 1)
        folder = tmp_path / f"{number}"
        shutil.copytree(made.folder, folder, symlinks=True)
        data = bytearray((folder / victim).read_bytes())
        data[place] ^= 1 << number
        (folder / victim).write_bytes(data)
        pipe = opened(folder)
        pipe.engine.drain()
        for name, answer in answers(pipe).items():
            assert answer == made.answers[name] or str(answer).startswith("corrupt_"), (name, place)
            assert answer == made.answers[name] or pipe.db.health().details["damage"]
        assert answers(pipe)["other"] == made.answers["other"], "another table's answer suffers"
        if kind not in ("hot segment", "parquet segment", "results"):
            assert answers(pipe) == made.answers
        pipe.db.stop()


def test_a_repeated_push_is_stored_again_only_where_damage_says_so(
    made: Made, opened: Callable[[Path], Opened], tmp_path: Path
) -> None:
    whole = (made.folder / "streams" / "1" / "keys.jsonl").read_bytes()
    for number, place in enumerate(range(3, len(whole), len(whole) // 6)):
        folder = tmp_path / f"{number}"
        shutil.copytree(made.folder, folder, symlinks=True)
        (folder / "streams" / "1" / "keys.jsonl").write_bytes(
            whole[:place] + bytes([whole[place] ^ 2]) + whole[place + 1 :]
        )
        pipe = opened(folder)
        before = pipe.db.log.head(1)
        for key in range(8):
            receipt = pipe.db.push("probes", [{"id": 1, "value": 0.0}], idempotency_key=f"key {key}")
            assert receipt.accepted == 1
        stored = pipe.db.log.head(1) - before
        assert stored <= 2  # a line break that flipped joins two lines
        assert stored == 0 or any(row.kind == "keys" for row in pipe.db.damage.open_rows())
        pipe.db.stop()
