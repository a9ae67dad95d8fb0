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
_NAMED = re.compile(r"^\s*(?:Collecting|Requirement already satisfied:|Processing|Obtaining) ?([A-Za-z0-9_.-]+)")


def run_pip(arguments: list[str], expected: int) -> None:
    """Run pip; show one line per package; on failure its last lines without addresses, and leave."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar=off", *arguments]
    pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert pip.stdout is not None
    tail: deque[str] = deque(maxlen=30)
    seen: set[str] = set()
    for line in pip.stdout:
        tail.append(_URL.sub("...", line.rstrip()))
        named = _NAMED.match(line)
        if named and named.group(1).lower() not in seen:
            seen.add(named.group(1).lower())
            show(f"  [{min(len(seen), expected):>{len(str(expected))}}/{expected}] {named.group(1)}")
        elif line.startswith("Building wheels"):
            show("  building pyspark, half a minute")
        elif line.startswith("Installing collected packages"):
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
    packages = [line for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
    print(f"setting up {venv} with {len(packages)} packages", file=sys.stderr)
    run_pip(["-r", str(LOCK)], len(packages))
    # The project itself: linked, not copied; its build tool is in the lock, so nothing else is fetched.
    run_pip(["--no-deps", "--no-build-isolation", "--editable", "."], 1)
    finish()
    print(f"{venv} is ready ({time.monotonic() - began:.0f} s)", file=sys.stderr)
    (venv / ".ready").touch()


if __name__ == "__main__":
    main()
