"""CLUSTERS: the sum of squares of its clusters against scikit-learn's best of ten starts, on the same scaled rows. Asked in SQL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from bench.local_database import local_database
from bench.mining import Figures
from bench.mining.calls import BEGAN_US, clocked, is_missing
from bench.mining.peers import ask_peer
from bench.mining.plots import bars
from bench.report import Report
from bench.tables import write_table
from penstock.operators.mining.series import Floats

DIMENSIONS, COUNTS, SEEDS, ROWS = (2, 10, 50), (4, 8, 16), 3, 5000
BATCH = 1000
SEED = 17
TABLE = "CREATE TABLE probes (id INT PRIMARY KEY, reading STREAM (vector ARRAY<DOUBLE>)) WITH (time = 'valid', out_of_order = 'accept')"
QUERY = "CREATE QUERY q AS SELECT UNNEST(CLUSTERS({k}, vector)) AS found FROM probes BEGIN (NOW - 1 DAY) END (NOW)"


def blobs(dimensions: int, count: int, seed: int) -> Floats:
    """As many heaps as are asked for, some wide, some narrow, large and small, which overlap a little."""
    rng = np.random.default_rng([SEED, dimensions, count, seed])
    centers = rng.normal(size=(count, dimensions)) * 6 / dimensions**0.25
    own = rng.choice(count, ROWS, p=rng.dirichlet(np.full(count, 3.0)))
    return centers[own] + rng.normal(size=(ROWS, dimensions)) * rng.uniform(0.5, 1.5, count)[own, None]


def scaled(rows: Floats) -> Floats:
    """As CLUSTERS scales: minus the median, by the distance of the quartiles."""
    low, middle, high = np.percentile(rows, (25, 50, 75), axis=0)
    return (rows - middle) / ((high - low) / 1.349)


def asked(rows: Floats, k: int) -> tuple[list[dict[str, Any]], float]:
    """What SQL answers, and in how many seconds."""
    with local_database() as (database, engine):
        database.execute(TABLE)
        database.execute("INSERT INTO probes VALUES (1, NULL)")
        database.execute(QUERY.format(k=k))
        for begin in range(0, len(rows), BATCH):
            some = rows[begin : begin + BATCH]
            ts = pa.array(BEGAN_US + 1000 * np.arange(begin, begin + len(some)), pa.timestamp("us", tz="UTC"))
            table = pa.table({"id": pa.array([1] * len(some), pa.int32()), "ts": ts, "vector": pa.array(list(some))})
            assert database.push("probes", table).accepted == len(some)
        engine.drain()
        seconds, answer = clocked(lambda: database.invoke("q").table.to_pylist())
    return [row["found"] for row in answer], seconds


def measure_clusters(report: Report) -> Figures:
    if is_missing(report.say, "clusters", "clusters"):
        return {}
    cases = [(d, k, seed) for d in DIMENSIONS for k in COUNTS for seed in range(SEEDS)]
    data = {case: blobs(*case) for case in cases}
    ours, spent = {}, []
    for case in cases:
        found, seconds = asked(data[case], case[1])
        ours[case] = sum(each["size"] * each["radius"] ** 2 for each in found)
        spent.append(seconds)
        if sum(each["size"] for each in found) != ROWS:
            report.say(f"[bold red]clusters of {case} have {sum(each['size'] for each in found)} rows of {ROWS}")
    figures: Figures = {"clusters_ms_in_sql": 1000 * float(np.median(spent))}
    arrays = {" ".join(map(str, case)): scaled(rows) for case, rows in data.items()}
    peer = ask_peer(report, "sklearn", {"starts": 10}, arrays)
    if peer is None:
        return figures
    ratios = {case: ours[case] / peer["squares"][" ".join(map(str, case))] for case in cases}
    one_start = {case: peer["squares_of_one"][" ".join(map(str, case))] for case in cases}
    table = [
        {
            "dimensions": d,
            "k": k,
            "ours / scikit-learn": max(ratios[d, k, seed] for seed in range(SEEDS)),
            "one start / ten": max(one_start[d, k, s] * ratios[d, k, s] / ours[d, k, s] for s in range(SEEDS)),
        }
        for d in DIMENSIONS
        for k in COUNTS
    ]
    write_table("mining_clusters", f"sums of squares, {ROWS} rows, the worst of {SEEDS}; below 1 ours is better", table)
    keys = {"CLUSTERS": "ours / scikit-learn", "one start of scikit-learn": "one start / ten"}
    lines = {
        label: {f"d {line['dimensions']}, k {line['k']}": line[key] for line in table} for label, key in keys.items()
    }
    quantity = "sum of squares / scikit-learn's best of ten starts, worst of three"
    bars("mining_clusters", {quantity: lines}, {quantity: 1.02})
    figures["clusters_ratio_sklearn"] = max(ratios.values())
    figures["clusters_ratio_sklearn_median"] = float(np.median(list(ratios.values())))
    figures["clusters_sklearn_ms"] = 1000 * float(np.median(peer["seconds"]))
    return figures
