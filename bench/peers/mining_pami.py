"""Frequent item sets of transactions by PAMI's FP-growth. `python mining_pami.py TASK.json`"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from PAMI.frequentPattern.basic.FPGrowth import FPGrowth


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def mined(path: Path, transactions: list[list[str]], least: int) -> list[tuple[list[str], int]]:
    path.write_text("".join("\t".join(items) + "\n" for items in transactions))
    search = FPGrowth(str(path), least)
    search.mine()
    return [(_items(pattern), int(count)) for pattern, count in search.getPatterns().items()]


def _items(pattern: str | tuple[str, ...]) -> list[str]:
    parts = pattern.strip().split("\t") if isinstance(pattern, str) else pattern
    return [part.strip() for part in parts]


def main(path: str) -> None:
    task = json.loads(Path(path).read_text())
    say(event="begin")
    with tempfile.TemporaryDirectory() as folder:
        found = [mined(Path(folder) / "rows", transactions, task["least"]) for transactions in task["transactions"]]
    say(event="end", found=found, version=version("PAMI"))


if __name__ == "__main__":
    main(sys.argv[1])
