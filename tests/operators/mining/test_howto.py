"""docs/howto/mining.md runs: its statements on excerpts of real series answer what the page shows."""

from __future__ import annotations

import os
import re
from datetime import datetime
from typing import Any

from penstock.operators.mining.registry import FUNCTIONS
from tests.support.pipe import Pipe
from tests.support.real_series import EXCERPTS, ROOT, Story, as_table

PAGE = ROOT / "docs" / "howto" / "mining.md"
BURSTS = [(1, [1, 2, 3]), (1, [3, 4, 5]), (2, [0, None, 1])]


def shown(value: Any) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    if value is None:
        return "NULL"
    if isinstance(value, dict):
        return " | ".join(map(shown, value.values()))
    if isinstance(value, list) and value and isinstance(value[0], float):
        return str([round(each, 2) for each in value])
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return ", ".join(": ".join(map(shown, each.values())) for each in value)
    if isinstance(value, list) and value and isinstance(value[0], str):
        return ", ".join(value)
    return f"{round(value, 2):g}" if isinstance(value, float) else str(value)


def test_every_example_answers_what_the_page_shows(pipe: Pipe) -> None:
    text = PAGE.read_text()
    blocks = re.findall(r"^```(sql|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for language, block in blocks:
        if language == "sql":
            pipe.db.execute(re.sub(r"^SUBSCRIBE .*$", "", block, flags=re.MULTILINE))
    frames = Story.of_folder(EXCERPTS).frames
    for name, frame in frames.items():
        pipe.db.push("series", as_table(name, frame))
    speed, occupancy = (
        as_table("t4013", frames[f"{name}_t4013"].drop_duplicates("ts")) for name in ("speed", "occupancy")
    )
    both = speed.rename_columns(["loop", "ts", "speed"]).join(
        occupancy.rename_columns(["loop", "ts", "occupancy"]), ["loop", "ts"], join_type="inner"
    )
    assert pipe.db.push("loops", both).accepted == 2493
    times = [datetime(2025, 11, 15, 7, 0, second).isoformat() + "Z" for second in range(3)]
    rows = [{"detector": d, "counts": c, "ts": t} for (d, c), t in zip(BURSTS, times, strict=True)]
    assert pipe.db.push("detectors", rows).accepted == 3
    pipe.engine.drain()
    asked = ""
    for language, block in blocks:
        if language == "sql":
            asked = next(iter(re.findall(r"CREATE QUERY (\w+)", block)), asked)
            continue
        answer = pipe.db.standing.invoke(asked).table.to_pylist()
        lines = "".join(" | ".join(map(shown, row.values())) + "\n" for row in answer)
        if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
            begin = text.index("```text\n", text.index(f"CREATE QUERY {asked} ")) + len("```text\n")
            text = text[:begin] + lines + text[text.index("```", begin) :]
            PAGE.write_text(text)
        else:
            assert lines == block, asked


def test_the_page_has_an_example_of_every_function() -> None:
    text = PAGE.read_text()
    assert [name for name in FUNCTIONS if f"{name.upper()}(" not in text] == []
