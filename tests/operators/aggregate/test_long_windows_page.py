"""What docs/howto/long-windows.md says EXPLAIN shows about slices is what it shows, but for the numbers."""

from __future__ import annotations

import re

from penstock.sql.parse import parse_script
from tests.support.pipe import Pipe
from tests.test_docs import ROOT, blocks_of

PAGE = ROOT / "docs" / "howto" / "long-windows.md"


def test_explain_shows_the_lines_that_the_page_explains(pipe: Pipe) -> None:
    definitions, *_ = blocks_of(PAGE, "sql")
    for statement in parse_script(definitions.text):
        pipe.db.execute(statement.source.sql)
    assert pipe.db.push("meters", [{"meter": "m1", "kw": 2.0, "ts": "2025-11-15T07:00:00Z"}]).accepted == 1
    pipe.engine.drain()
    explained = pipe.db.execute("EXPLAIN month").table.column(0).to_pylist()
    first = next(place for place, line in enumerate(explained) if line.startswith("  slices:"))
    (told,) = blocks_of(PAGE, "text")
    assert without_numbers("\n".join(explained[first:])) == without_numbers(told.text)


def without_numbers(text: str) -> str:
    """One and many are the same word: `1 cell`, `2 cells`."""
    return re.sub(r"\d+ (\w+?)s?\b", r"N \1", re.sub(r"\b\d+\b(?! \w)", "N", text))
