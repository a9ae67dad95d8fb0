"""scikit-learn's k-means on scaled rows, with several starts and with one. `python mining_sklearn.py TASK.json`

Arrays are named `dimensions k seed`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.cluster import KMeans


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def main(path: str) -> None:
    task = json.loads(Path(path).read_text())
    data = dict(np.load(task["arrays"]))
    say(event="begin")
    squares, one, seconds = {}, {}, []
    for name, rows in data.items():
        k = int(name.split()[1])
        began = time.perf_counter()
        squares[name] = float(KMeans(k, n_init=task["starts"], random_state=0).fit(rows).inertia_)
        seconds.append(time.perf_counter() - began)
        one[name] = float(KMeans(k, n_init=1, random_state=1).fit(rows).inertia_)
    say(event="end", squares=squares, squares_of_one=one, seconds=seconds, version=sklearn.__version__)


if __name__ == "__main__":
    main(sys.argv[1])
