"""The nearest stretches to a shape by stumpy, in processor seconds. `python mining_stumpy.py TASK.json`"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import stumpy


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def apart(distances: np.ndarray, reach: int, top: int) -> list[int]:
    """The nearest, and the next ones that start more than `reach` elements away from it."""
    left, found = distances.copy(), []
    for _ in range(top):
        place = int(np.argmin(left))
        if not np.isfinite(left[place]):
            break
        found.append(place)
        left[max(0, place - reach) : place + reach + 1] = np.inf
    return found


def main(path: str) -> None:
    task = json.loads(Path(path).read_text())
    arrays = dict(np.load(task["arrays"]))
    stumpy.mass(arrays["shape 0"], arrays["values 0"])  # compiles
    say(event="begin")
    found, seconds = [], []
    for number in range(task["count"]):
        shape = arrays[f"shape {number}"]
        began = time.process_time()
        distances = stumpy.mass(shape, arrays[f"values {number}"])
        places = apart(distances, len(shape) // 2, task["top"])
        seconds.append(time.process_time() - began)
        found.append({"places": places, "distances": distances[places].tolist()})
    say(event="end", found=found, seconds=seconds, version=stumpy.__version__)


if __name__ == "__main__":
    main(sys.argv[1])
