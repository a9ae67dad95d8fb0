"""Folders that released versions wrote are opened by this one, and answer as they did."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from penstock.catalog.folder_format import FORMAT_VERSION, read_format
from penstock.catalog.journal import JournalReader
from tests.support.folder_fixture import FOLDERS, ON_SPARK, QUERIES, plain_rows, readings
from tests.support.pipe import Pipe

VERSIONS = sorted(path.name.removesuffix(".tar.gz") for path in FOLDERS.glob("*.tar.gz"))


def unpack(version: str, target: Path) -> Path:
    with tarfile.open(FOLDERS / f"{version}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target / "data"


def open_folder(version: str, target: Path) -> Pipe:
    """The folder, on a clock that stands a minute after it was closed."""
    data = unpack(version, target)
    closed_s = max(path.stat().st_mtime for path in data.rglob("*"))
    return Pipe(data, began_us=int(closed_s * 1e6) + 60_000_000)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_of_an_earlier_version_answers_as_it_did(version: str, tmp_path: Path) -> None:
    said = json.loads((FOLDERS / f"{version}.json").read_text())
    for name in ON_SPARK:
        del said[name]
    assert said.keys() >= QUERIES.keys()
    pipe = open_folder(version, tmp_path)
    for _ in range(2):
        answers = {name: plain_rows(pipe.db.standing.invoke(name).table.to_pylist()) for name in said}
        assert answers == said
        assert pipe.db.query("rests")["state"] == "PAUSED"
        pipe.restart()
    pipe.db.stop()
    assert not list(pipe.folder.glob("catalog.sqlite*")), "a copy of the catalog that nothing keeps up to date"


def test_there_is_a_folder_of_each_earlier_format() -> None:
    assert ["0.1", *(f"format-{number}" for number in range(2, FORMAT_VERSION))] == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_of_an_earlier_version_is_of_this_format_after_its_first_write(version: str, tmp_path: Path) -> None:
    pipe = open_folder(version, tmp_path)
    pipe.db.execute("CREATE STREAM TYPE plain AS (value DOUBLE)")
    assert read_format(pipe.folder) == FORMAT_VERSION
    pipe.db.stop()


def test_a_folder_of_format_3_has_what_came_with_that_format(tmp_path: Path) -> None:
    data = unpack("format-3", tmp_path)
    assert any((data / "slices").rglob("*.arrow"))
    entries = JournalReader(data).read()
    assert any(entry.kind == "run_plan" for entry in entries) and read_format(data) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_of_an_earlier_version_takes_readings_and_definitions(version: str, tmp_path: Path) -> None:
    pipe = open_folder(version, tmp_path)
    pipe.db.push("rooms", [{**row, "celsius": 30.0} for row in readings(340, 6)])
    pipe.db.execute(
        "CREATE QUERY hot AS SELECT name, celsius FROM rooms WHERE celsius = 30 BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    for _ in range(2):
        pipe.engine.drain()
        assert len(pipe.answer("hot", "celsius")) == 6
        assert pipe.answer("warm", "celsius").count(30.0) == 6
        pipe.restart()
    pipe.db.stop()
