"""docs/howto/mining.md: its statements, and how it shows answers."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pyarrow as pa

from tests.support.real_series import ROOT

PAGE = ROOT / "docs" / "howto" / "mining.md"
BY_SPARK = ("warm_from",)
"""Its queries on queries, which Spark SQL answers."""


def blocks_of(text: str) -> list[tuple[str, str]]:
    """Statements (`sql`) and what they answer (`text`), in order."""
    return re.findall(r"^```(sql|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def lines_of(answer: pa.Table) -> str:
    return "".join(" | ".join(map(shown, row.values())) + "\n" for row in answer.to_pylist())


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
