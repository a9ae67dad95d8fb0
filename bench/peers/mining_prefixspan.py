"""Frequent sequences by prefixspan. `python mining_prefixspan.py TASK.json`"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from prefixspan import PrefixSpan


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def main(path: str) -> None:
    task = json.loads(Path(path).read_text())
    found, seconds = [], []
    say(event="begin")
    for database in task["databases"]:
        began = time.perf_counter()
        search = PrefixSpan(database)
        search.minlen, search.maxlen = 2, task["longest"]
        found.append(search.frequent(task["least"]))
        seconds.append(time.perf_counter() - began)
    say(event="end", found=found, seconds=seconds, version=version("prefixspan"))


if __name__ == "__main__":
    main(sys.argv[1])
