"""For every test: say loudly, last thing before the closing line, which tests were left out and why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out: Counter[tuple[str, str]] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        left_out[(Path(report.nodeid.partition("::")[0]).as_posix(), reason.removeprefix("Skipped: "))] += 1
    if not left_out:
        return
    terminalreporter.section("LEFT OUT", sep="!", red=True, bold=True)
    for (file, reason), count in sorted(left_out.items()):
        terminalreporter.line(f"{count} in {file}: {reason}", yellow=True)
