"""River's anomaly scorers over series, one value after the other. `python mining_river.py TASK.json`

`gaussian`: by series the window of a GaussianScorer; `trees_quantile`: half-space trees with a filter of that quantile, or null.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import river
from river import anomaly, preprocessing


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def gaussian(values: list[float], window: int, grace: int) -> list[float]:
    """Each value is scored before it is learned."""
    scorer = anomaly.GaussianScorer(window_size=window, grace_period=grace)
    scores = []
    for value in values:
        scores.append(float(scorer.score_one(None, value)))
        scorer.learn_one(None, value)
    return scores


def trees(values: list[float], quantile: float, seed: int) -> list[int]:
    scale = preprocessing.MinMaxScaler()
    scorer = anomaly.QuantileFilter(anomaly.HalfSpaceTrees(seed=seed), q=quantile)
    found = []
    for value in values:
        scale.learn_one({"x": value})
        x = scale.transform_one({"x": value})
        found.append(int(scorer.classify(scorer.score_one(x))))
        scorer.learn_one(x)
    return found


def main(path: str) -> None:
    task = json.loads(Path(path).read_text())
    series = {name: values.tolist() for name, values in np.load(task["arrays"]).items()}
    say(event="begin")
    began = time.perf_counter()
    scores = {name: gaussian(values, task["gaussian"][name], task["grace"]) for name, values in series.items()}
    spent = time.perf_counter() - began
    quantile = task["trees_quantile"]
    found = {name: trees(values, quantile, task["seed"]) for name, values in series.items()} if quantile else {}
    say(event="end", gaussian=scores, trees=found, gaussian_s=spent, version=river.__version__)


if __name__ == "__main__":
    main(sys.argv[1])
