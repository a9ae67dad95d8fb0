"""`penstock demo` as a user runs it, on a machine without Java on PATH."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tests.support.spark_lock import one_spark


def path_without_java(folder: Path) -> str:
    """PATH as it is here, but for java: Spark's launcher and Hadoop's file system call a dozen other programs."""
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name != "java" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


def test_the_demo_shows_sixty_probes_and_the_way_of_the_plume_and_leaves_nothing_running(tmp_path: Path) -> None:
    with one_spark():
        run_the_demo(tmp_path)


def run_the_demo(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ["PATH"] = path_without_java(tmp_path)
    command = [sys.executable, "-m", "penstock", "demo", "--plain", "--port", "0"]
    demo = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_listen_to_ctrl_c
    )
    assert demo.stdout is not None
    lines: list[str] = []
    family: list[psutil.Process] = []
    for line in demo.stdout:
        lines.append(line)
        seen = re.search(r"cycle \d+  (\d+) probes .* (\d+) in alarm.* passed probe \d+ -> \d+ -> \d+ in", line)
        if seen and int(seen.group(1)) == 60:
            family = psutil.Process(demo.pid).children(recursive=True)
            demo.send_signal(signal.SIGINT)
            break
    rest, errors = demo.communicate(timeout=120)
    assert family, "".join(lines) + rest + errors
    assert demo.returncode == 0, errors
    assert "Traceback" not in errors
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []


def _listen_to_ctrl_c() -> None:
    """Whoever runs the tests in the background ignores it, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
