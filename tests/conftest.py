"""For every test: who runs where, and, last thing before the closing line, loudly, which were left out and why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WITH_SPARK = {"bad_input", "cluster", "kill", "live", "pipeline"}


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with Spark come first and stay in one process, while the others run beside them: a cycle mostly waits."""
    with_spark = [item for item in items if item.path.relative_to(HERE).parts[0] in WITH_SPARK]
    for item in with_spark:
        item.add_marker(pytest.mark.xdist_group("spark"))
    chosen = {id(item) for item in with_spark}
    items[:] = with_spark + [item for item in items if id(item) not in chosen]


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
