"""Every promise of docs/explanation/promises.md names tests that exist and are not expected to fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "promises.md"
ROWS = [
    line
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| promise", "| ---"))
]
NAMED = sorted({name for row in ROWS for name in re.findall(r"`(tests/[^`]+)`", row)})


def test_every_promise_names_a_test() -> None:
    assert len(ROWS) > 10
    assert [row for row in ROWS if "`tests/" not in row] == []


@pytest.mark.parametrize("name", NAMED)
def test_a_named_test_exists_and_is_not_expected_to_fail(name: str) -> None:
    path, _, function = name.partition("::")
    text = (ROOT / path).read_text()
    if not function:
        assert "def test_" in text and "pytest.mark.xfail" not in text
        return
    found = re.search(rf"((?:^@.*\n(?:^[ )\]].*\n)*)*)^def {function}\(", text, re.M)
    assert found is not None, f"{path} has no test {function}"
    assert "xfail" not in found.group(1) and "skip" not in found.group(1)
