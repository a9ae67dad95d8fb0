"""docs/howto/mining.md runs: its statements on excerpts of real series answer what the page shows."""

from __future__ import annotations

import os
import re

from penstock.operators.mining.registry import FUNCTIONS
from tests.support.mining_page import BY_SPARK, PAGE, blocks_of, lines_of
from tests.support.pipe import Pipe
from tests.support.real_series import push_howto

PICTURES = {
    "mining-series": ("series", "anomaly"),
    "mining-anomalies": ("anomalies",),
    "mining-rhythm": ("baseline", "periods", "periodic_patterns"),
    "mining-courses": ("frequent_sequences",),
    "mining-changes": ("change_points", "forecast"),
    "mining-matches": ("matches",),
    "mining-traffic": ("clusters",),
    "mining-spectra": ("vector_sum", "vector_avg"),
}


def test_every_example_answers_what_the_page_shows(pipe: Pipe) -> None:
    text = PAGE.read_text()
    blocks = blocks_of(text)
    for language, block in blocks:
        if language == "sql" and not any(f"CREATE QUERY {name} " in block for name in BY_SPARK):
            pipe.db.execute(re.sub(r"^SUBSCRIBE .*$", "", block, flags=re.MULTILINE))
    push_howto(pipe.db)
    pipe.engine.drain()
    asked = ""
    for language, block in blocks:
        if language == "sql":
            asked = next(iter(re.findall(r"CREATE QUERY (\w+)", block)), asked)
            continue
        if asked in BY_SPARK:
            continue
        lines = lines_of(pipe.db.standing.invoke(asked).table)
        if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
            begin = text.index("```text\n", text.index(f"CREATE QUERY {asked} ")) + len("```text\n")
            text = text[:begin] + lines + text[text.index("```", begin) :]
            PAGE.write_text(text)
        else:
            assert lines == block, asked


def test_the_page_has_an_example_of_every_function() -> None:
    text = PAGE.read_text()
    assert [name for name in FUNCTIONS if f"{name.upper()}(" not in text] == []


def test_the_page_has_a_picture_of_every_function() -> None:
    """`make mining-plots` draws them."""
    text = PAGE.read_text()
    shown_by = set(re.findall(r"\.\./img/(mining-[\w-]+)\.png", text))
    assert shown_by == set(PICTURES) and {name for names in PICTURES.values() for name in names} == set(FUNCTIONS)
    assert all((PAGE.parent / "../img" / f"{name}.png").exists() for name in PICTURES)
