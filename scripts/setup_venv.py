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
# "Collecting numpy==2.4.6 ...", "Requirement already satisfied: numpy==2.4.6 ...", "Processing .../numpy-2.4.6-cp311...whl"
_NAMED = re.compile(
    r"^(?:Collecting|Requirement already satisfied:|Processing (?:\S*/)?)\s*([A-Za-z0-9_.-]+?)(?:[=<>~!; ]|-\d|$)"
)


def run_pip(arguments: list[str], locked: list[str]) -> None:
    """Run pip; show each locked line as pip comes to it; on failure its last lines without addresses, and leave."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar=off", *arguments]
    pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert pip.stdout is not None
    tail: deque[str] = deque(maxlen=30)
    places = {_normal(line.partition("==")[0]): place for place, line in enumerate(locked, 1)}
    reached = 0
    for line in pip.stdout:
        tail.append(_URL.sub("...", line.rstrip()))
        named = _NAMED.match(line)
        place = places.get(_normal(named.group(1)), 0) if named else 0
        if place > reached:
            reached = place
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


def warm_up() -> None:
    """Compile and train, showing each step; not an error where it fails, because everything works without."""
    show("  warming up, a minute, so that every start is quick")
    command = [sys.executable, "-m", "penstock", "warm-up"]
    warming = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert warming.stderr is not None
    tail: deque[str] = deque(maxlen=5)
    for line in warming.stderr:
        tail.append(line.rstrip())
        if line.startswith("penstock: "):
            show(f"  {line.removeprefix('penstock: ').rstrip()}")
    failed = warming.wait() != 0
    finish()
    if failed:
        print("This environment could not be warmed up; starts will be slower. It said:", file=sys.stderr)
        print("\n".join(tail), file=sys.stderr)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


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
    warm_up()
    print(f"{venv} is ready ({time.monotonic() - began:.0f} s)", file=sys.stderr)
    (venv / ".ready").touch()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nstopped; the next make goes on from here")
