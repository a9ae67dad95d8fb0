"""Fill the virtual environment from requirements.lock with plain pip, showing progress, hiding addresses.

Runs with nothing but the standard library, because it runs first. Writes the stamp that make looks at last.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

LOCK = Path("requirements.lock")
_URL = re.compile(r"\b(?:https?|file)://\S+|\bhost='[^']*'|(?<=Looking in )(?:indexes|links): .*")
_LOCK_LINE = re.compile(r"\(from -r \S+ \(line (\d+)\)\)")


def run_pip(arguments: list[str], locked: list[str]) -> None:
    """Run pip; show each locked line as pip comes to it; on failure its last lines without addresses, and leave."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar=off", *arguments]
    pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert pip.stdout is not None
    tail: deque[str] = deque(maxlen=30)
    reached = 0
    for line in pip.stdout:
        tail.append(_URL.sub("...", line.rstrip()))
        named = _LOCK_LINE.search(line)
        if named and int(named.group(1)) > reached:
            reached = int(named.group(1))
            show(f"  [{reached:>{len(str(len(locked)))}}/{len(locked)}] {locked[reached - 1]}")
        elif locked and line.startswith("Building wheels"):
            show("  building pyspark, half a minute")
        elif locked and line.startswith("Installing collected packages"):
            show("  writing files, up to a minute")
    if pip.wait() != 0:
        finish()
        print("\n".join(tail), file=sys.stderr)
        print("pip failed; the lines above say why. Run the same make target again to go on.", file=sys.stderr)
        raise SystemExit(1)


def show(text: str) -> None:
    """On a terminal one line that changes, elsewhere one line each."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def finish() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def main() -> None:
    venv = Path(sys.argv[1])
    began = time.monotonic()
    locked = LOCK.read_text().splitlines()
    print(f"setting up {venv} with {len(locked)} packages", file=sys.stderr)
    run_pip(["-r", str(LOCK)], locked)
    # The project itself: linked, not copied; its build tool is in the lock, so nothing else is fetched.
    run_pip(["--no-deps", "--no-build-isolation", "--editable", "."], [])
    finish()
    print(f"{venv} is ready ({time.monotonic() - began:.0f} s)", file=sys.stderr)
    (venv / ".ready").touch()


if __name__ == "__main__":
    main()
