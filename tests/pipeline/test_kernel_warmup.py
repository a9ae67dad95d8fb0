"""Kernels are compiled before anybody waits for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipeline import kernel_cache
from penstock.pipeline.kernel_warmup import PARTS

ROOT = Path(__file__).parents[2]


def python(*arguments: str, **environment: str) -> str:
    known = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))), **environment}
    done = subprocess.run([sys.executable, *arguments], env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_cycles_of_every_kind_run_only_kernels_that_were_rehearsed(tmp_path: Path) -> None:
    assert python("-m", "tests.pipeline.kernel_warmup_child", str(tmp_path / "data")) == ""


def test_without_a_folder_to_write_to_every_process_compiles_for_itself() -> None:
    script = (
        "from penstock.expr.kernel import cache_folder; from penstock.streams.ingest import rules;"
        "rules.warm_up(); print(cache_folder(), rules._number_rows.stats.cache_path)"
    )
    # A locator that fits no file of ours: to Numba the same as folders that cannot be written to.
    assert python("-c", script, NUMBA_CACHE_LOCATOR_CLASSES="IPythonCacheLocator") == "None None\n"


class Compiler:
    """Stands in for the processes that compile."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.failure = ""
        self.compiled: list[str] = []
        self.shown: list[str] = []
        monkeypatch.setattr(subprocess, "run", self._run)

    def _run(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.compiled.append(command[-1])
        return subprocess.CompletedProcess(command, 1 if self.failure else 0, "", self.failure)

    def start(self) -> list[str]:
        """The parts that one start compiles."""
        self.compiled.clear()
        kernel_cache.compile_kernels(self.shown.append, self.folder)
        return sorted(self.compiled)


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    return Compiler(tmp_path, monkeypatch)


def test_only_the_first_start_compiles_and_says_so(compiler: Compiler) -> None:
    assert compiler.start() == sorted(PARTS)
    assert compiler.shown[-1] == f"compiling kernels, {len(PARTS)} of {len(PARTS)}"
    compiler.shown.clear()
    assert compiler.start() == [] and compiler.shown == []


def test_other_sources_are_compiled_again(compiler: Compiler) -> None:
    compiler.start()
    (stamp,) = compiler.folder.iterdir()
    stamp.write_text("of other sources")
    assert compiler.start() == sorted(PARTS)
    assert compiler.start() == []


def test_what_could_not_be_compiled_stops_nobody_and_is_tried_again(compiler: Compiler) -> None:
    compiler.failure = "no memory"
    assert compiler.start() == sorted(PARTS)
    compiler.failure = ""
    assert compiler.start() == sorted(PARTS)
    assert compiler.start() == []
