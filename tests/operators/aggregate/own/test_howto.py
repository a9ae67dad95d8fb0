"""docs/howto/own-aggregates.md runs: its queries answer what the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from tests.operators.aggregate.own.bodies import statement
from tests.support.pipe import BEGAN_US, Pipe

PAGE = Path(__file__).parents[4] / "docs" / "howto" / "own-aggregates.md"
READINGS = [
    (1, 100.0, "low", 0),
    (1, 200.0, "fine", 10),
    (2, 400.0, "high", 20),
    (3, 50.0, "low", 5),
    (3, None, "none", 25),
    (2, 0.0, "off", 30),
]
MEAN_OF_MEANS = """
def init(): return 0.0
def add(state, x): return (state + x) / 2
def merge(a, b): return (a + b) / 2
def finish(state): return state
"""


def shown(value: Any) -> str:
    return "NULL" if value is None else f"{round(value, 2):g}" if isinstance(value, float) else str(value)


def test_every_query_answers_what_the_page_shows(pipe: Pipe) -> None:
    blocks = re.findall(r"^```(sql|text)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for language, block in blocks:
        if language == "sql":
            pipe.db.execute(block)
    rows = [{"meter": m, "watts": w, "note": n, "ts": BEGAN_US + at * 1_000_000} for m, w, n, at in READINGS]
    assert pipe.db.push("meters", rows).accepted == len(rows)
    pipe.engine.drain()
    asked, answered = "", 0
    for language, block in blocks:
        if language == "sql":
            asked = next(iter(re.findall(r"CREATE QUERY (\w+)", block)), asked)
        elif not block.startswith("ERROR"):
            answer = pipe.db.standing.invoke(asked).table.to_pylist()
            assert "".join(" | ".join(map(shown, row.values())) + "\n" for row in answer) == block, asked
            answered += 1
    assert answered == 3


def test_a_mean_of_means_is_refused_with_the_words_of_the_page(pipe: Pipe) -> None:
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(statement("bad_mean", "x DOUBLE", "DOUBLE", "DOUBLE", MEAN_OF_MEANS))
    text = " ".join(PAGE.read_text().split())
    said = re.sub(r"-?\d+\.\d+(e-?\d+)?", "#", refused.value.message)
    assert said in re.sub(r"-?\d+\.\d+", "#", text) and (refused.value.hint or "") in text
