"""Files below one folder: what is swapped between the look and the opening is not read."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.errors import PenstockError
from penstock.sensors.address_rules import SensorFiles
from penstock.sensors.recording_files import BoundedLines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    (made / "deep").mkdir(parents=True)
    (made / "deep" / "r.csv").write_text("good")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "r.csv").write_text("secret")
    return made


def swap_once(monkeypatch: pytest.MonkeyPatch, name: str, swap: Callable[[], None]) -> None:
    """Change the folder just after `os.<name>` has answered for the first time."""
    real: Any = getattr(os, name)
    done: list[bool] = []

    def answer(*arguments: Any, **named: Any) -> Any:
        found = real(*arguments, **named)
        if not done:
            done.append(True)
            swap()
        return found

    monkeypatch.setattr(os, name, answer)


def test_a_link_inside_the_folder_is_followed_and_one_that_leads_out_is_not(folder: Path, tmp_path: Path) -> None:
    files = SensorFiles(folder)
    (folder / "near.csv").symlink_to(folder / "deep" / "r.csv")
    (folder / "far.csv").symlink_to(tmp_path / "secret" / "r.csv")
    (folder / "loop.csv").symlink_to(folder / "loop.csv")
    with files.open("near.csv") as file:
        assert file.read() == b"good"
    for name in ("far.csv", "loop.csv"):
        with pytest.raises(PenstockError) as caught:
            files.open(name)
        assert caught.value.condition == "address_not_allowed" and "sensor_files" in str(caught.value.hint)


@pytest.mark.parametrize("what", ["the file", "its folder", "the file, by a FIFO"])
def test_what_is_swapped_after_the_check_is_not_opened(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def swap() -> None:
        if what == "its folder":
            (folder / "deep").rename(folder / "old")
            (folder / "deep").symlink_to(tmp_path / "secret")
        else:
            (folder / "deep" / "r.csv").unlink()
            if what == "the file":
                (folder / "deep" / "r.csv").symlink_to(tmp_path / "secret" / "r.csv")
            else:
                os.mkfifo(folder / "deep" / "r.csv")

    # The folder is opened before its file is looked at: the swap comes between two looks in each case.
    swap_once(monkeypatch, "open" if what == "its folder" else "stat", swap)
    with pytest.raises(PenstockError) as caught:
        SensorFiles(folder).open("deep/r.csv")
    assert caught.value.condition == "address_not_allowed"


def test_without_a_folder_every_address_is_refused() -> None:
    with pytest.raises(PenstockError, match="no folder"):
        SensorFiles(None).check("r.csv")


@given(
    text=some.lists(some.sampled_from([b"a", b"bb", b"\n", b"c" * 9, b"\r"]), max_size=60).map(b"".join),
    most=some.integers(1, 12),
    size=some.integers(1, 40),
)
def test_lines_that_are_short_enough_come_through_unchanged(text: bytes, most: int, size: int) -> None:
    skipped: list[int] = []
    lines = io.BufferedReader(BoundedLines(io.BytesIO(text), most, lambda: skipped.append(1)), size)  # type: ignore[arg-type]
    whole, last = text.split(b"\n")[:-1], text.split(b"\n")[-1]
    expected = [line + b"\n" for line in whole if len(line) <= most] + [last][: len(last) <= most]
    assert lines.read() == b"".join(expected) and len(skipped) == sum(len(line) > most for line in (*whole, last))
