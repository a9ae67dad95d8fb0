"""Setting up a machine: what the scripts show, and that they can be read by the shells they are for."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def setup_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_venv", ROOT / "scripts" / "setup_venv.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Collecting numpy==2.4.6", "numpy"),
        ("Collecting annotated-doc==0.0.6 (from -r requirements.lock (line 1))", "annotated-doc"),
        ("Processing ./wheels/annotated_types-0.8.0-py3-none-any.whl (from -r x (line 2))", "annotated_types"),
        ("Requirement already satisfied: pandas==2.3.3 in ./.venv/lib (from -r x (line 3)) (2.3.3)", "pandas"),
    ],
)
def test_progress_knows_which_package_pip_is_at(line: str, name: str) -> None:
    found = setup_script()._NAMED.match(line)
    assert found is not None and found.group(1) == name


@pytest.mark.parametrize(
    "line",
    [
        "Looking in indexes: https://user:secret@mirror.example/simple",
        "  Downloading https://mirror.example/files/numpy.whl (16 MB)",
        "WARNING: Location 'file:///opt/somewhere/numpy/' is ignored",
        "HTTPSConnectionPool(host='mirror.example', port=443): Max retries exceeded",
    ],
)
def test_no_address_of_a_registry_is_ever_shown(line: str) -> None:
    shown = setup_script()._URL.sub("...", line)
    assert "example" not in shown and "/opt/" not in shown


@pytest.mark.parametrize(("shell", "script"), [("bash", ".ci/run"), ("sh", "scripts/setup_venv.sh")])
def test_the_scripts_are_correct_shell(shell: str, script: str) -> None:
    subprocess.run([shell, "-n", str(ROOT / script)], check=True)


def test_every_target_that_is_promised_has_a_line_in_the_help() -> None:
    shown = subprocess.run(["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True).stdout
    for target in ("demo", "test", "check", "bench", "soak", "format", "clean", "help"):
        assert f"make {target} " in shown
