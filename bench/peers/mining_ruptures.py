"""ruptures' exact search for steps of the mean, in C and in Python, in processor seconds. `python mining_ruptures.py TASK.json`

`same` and `white` are penalties by series; `slow` names the series for the Python one.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import ruptures


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def timed(search: Any, values: np.ndarray, penalty: float) -> tuple[list[int], float]:
    began = time.process_time()
    found = search.fit(values.reshape(-1, 1)).predict(pen=penalty)
    return [int(place) for place in found[:-1]], time.process_time() - began


def in_c(shortest: int) -> Any:
    """Squared deviations from the mean are the cost of its linear kernel."""
    return ruptures.KernelCPD(kernel="linear", min_size=shortest, jump=1)


def main(path: str) -> None:
    task = json.loads(Path(path).read_text())
    series = dict(np.load(task["arrays"]))
    shortest = task["shortest"]
    say(event="begin")
    same = {name: timed(in_c(shortest), values, task["same"][name]) for name, values in series.items()}
    white = {name: timed(in_c(shortest), values, task["white"][name])[0] for name, values in series.items()}
    fast_s = sum(seconds for _, seconds in same.values())
    slow_s = []
    for name in task["slow"]:
        search = ruptures.Pelt(model="l2", min_size=shortest, jump=1)
        slow_s.append(timed(search, series[name], task["same"][name])[1])
    found = {name: places for name, (places, _) in same.items()}
    say(event="end", same=found, white=white, fast_s=fast_s, slow_s=slow_s, version=str(ruptures.version.__version__))


if __name__ == "__main__":
    main(sys.argv[1])
