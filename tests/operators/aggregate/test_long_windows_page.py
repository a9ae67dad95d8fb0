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
    readings = [{"meter": "m1", "kw": 2.0, "ts": f"2025-11-15T07:0{minute}:00Z"} for minute in range(2)]
    assert pipe.db.push("meters", readings).accepted == 2
    pipe.engine.drain()
    explained = pipe.db.execute("EXPLAIN month").table.column(0).to_pylist()
    first = next(place for place, line in enumerate(explained) if line.startswith("  slices:"))
    (told,) = blocks_of(PAGE, "text")
    assert [before_numbers(line) for line in explained[first:]] == [
        before_numbers(line) for line in told.text.splitlines()
    ]


def before_numbers(line: str) -> str:
    return re.split(r"\d", line)[0]
