"""`make check`: every static check, all of them even when one fails, with one summary at the end."""

from __future__ import annotations

import subprocess
import sys
import time

CHECKS = (
    ("format", [sys.executable, "-m", "ruff", "format", "--check", "--quiet", "."]),
    ("lint", [sys.executable, "-m", "ruff", "check", "--quiet", "."]),
    ("types", [sys.executable, "-m", "mypy", "--strict"]),
    ("imports", [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-logo"]),
)


def main() -> int:
    summary: list[str] = []
    failed = 0
    for name, command in CHECKS:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        code = subprocess.run(command, check=False).returncode
        failed += code != 0
        summary.append(f"  {name:<8} {'ok' if code == 0 else 'FAILED'}  {time.monotonic() - began:.1f} s")
    print("== check", *summary, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
