"""What holds for the repository as a whole."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked_files() -> list[Path]:
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return [path for folder in ("src", "tests", "docs", "scripts") for path in (ROOT / folder).rglob("*.*")]
    return [ROOT / line for line in listed.splitlines()]


def test_every_package_that_the_project_names_is_locked_to_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {}
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        name, separator, version = line.partition("==")
        assert separator and re.fullmatch(r"[0-9][0-9A-Za-z.+!-]*", version), f"not an exact version: {line}"
        locked[normal(name)] = version
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    names = {normal(package_name(item)) for item in wanted}
    assert names - set(locked) == set()


def test_every_dependency_has_its_line_in_the_decision() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "docs/decisions/0002-dependencies.md").read_text()
    for item in project["dependencies"] + project["optional-dependencies"]["dev"]:
        name = package_name(item)
        assert name in text, f"{name} has no line in docs/decisions/0002-dependencies.md"


def test_the_version_is_the_same_everywhere() -> None:
    import penstock

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == penstock.__version__


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    machine = re.compile(r"/work/(?:main|shared)|/tmp/p/|/home/[a-z]+/|/root/")
    found = []
    for path in tracked_files():
        if path.suffix in {".png", ".arrow", ".parquet"} or not path.is_file() or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if machine.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


def package_name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert found is not None
    return found.group()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
