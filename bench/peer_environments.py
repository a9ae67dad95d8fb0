"""Environments of their own for engines that we compare with: none of them is a dependency of ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.report import Report

PEERS = Path(__file__).parent / ".peers"


def install(
    report: Report, name: str, home: Path, requirements: Sequence[str], module: str, effort: str
) -> Path | None:
    """The Python of an environment that has a peer, made where it is missing; None, and said, where that fails."""
    python = home / "bin" / "python"
    if python.exists() and _runs([python, "-c", f"import {module}"]):
        return python
    report.say(f"peers: installing {name} into an environment of its own; {effort}")
    shutil.rmtree(home, ignore_errors=True)
    steps = ([sys.executable, "-m", "venv", str(home)], [str(python), "-m", "pip", "install", "-q", *requirements])
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            report.say(
                f"[bold red]{name.upper()} IS LEFT OUT: it could not be installed.[/bold red]\n{done.stderr[-800:]}"
            )
            return None
    return python


def _runs(command: list[Any]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
