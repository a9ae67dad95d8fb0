"""AutoETS of statsforecast, from many histories, in processor seconds. `python mining_statsforecast.py TASK.json`"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import statsforecast
from statsforecast.models import AutoETS


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def main(path: str) -> None:
    warnings.filterwarnings("ignore")
    task = json.loads(Path(path).read_text())
    histories = dict(np.load(task["arrays"]))
    level, season, ahead = task["level"], task["season"], task["ahead"]

    def forecast(values: np.ndarray) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = AutoETS(season_length=season).forecast(y=values, h=ahead, level=[level])
        return found

    forecast(next(iter(histories.values())))  # compiles
    say(event="begin")
    found, seconds = {}, []
    for name, values in histories.items():
        began = time.process_time()
        one = forecast(values)
        seconds.append(time.process_time() - began)
        columns = {"value": "mean", "lower": f"lo-{level}", "upper": f"hi-{level}"}
        found[name] = {ours: one[theirs].tolist() for ours, theirs in columns.items()}
    say(event="end", found=found, seconds=seconds, version=statsforecast.__version__)


if __name__ == "__main__":
    main(sys.argv[1])
