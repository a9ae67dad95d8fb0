"""The same selections elsewhere: one Spark streaming query each, and one DuckDB query per invocation."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from bench.generator import percentile
from bench.joins_peers import HERE, run_peer
from bench.peer_environments import PEERS, install
from bench.query_workload import ATTRIBUTES, readings, selections
from bench.report import Report
from bench.tables import write_table

SEED = 44
SPARK_RATE = 1_000
"""Modest: what a batch costs is in its planning and bookkeeping, not in its rows."""
SPARK_BOUND_MS = 1_000
LOG_ROWS, WINDOW_TUPLES, QUERIES, INVOCATIONS = 2**20, 2**15, 200, 1_000


def measure_spark(report: Report, seconds: float) -> None:
    chosen = selections(64, SEED)
    with tempfile.TemporaryDirectory(prefix="penstock-peers-") as temporary:
        file = Path(temporary) / "readings.parquet"
        pa.parquet.write_table(pa.table(readings(SEED, 0, SPARK_RATE)), file)
        task = {"file": str(file), "where": [c.where() for c in chosen], "rate": SPARK_RATE, "bound_ms": SPARK_BOUND_MS}
        task |= {"hold_s": max(5.0, min(20.0, seconds / 3)), "budget_s": 10 * seconds}
        path = write_task(Path(temporary), task)
        command = [sys.executable, str(HERE / "peers" / "spark_selections.py"), str(path)]
        found = run_peer(report, "spark, a streaming query each", command)
    if found is None:
        report.put("spark_queries_borne", None)
        return
    report.put("spark_queries_borne", found["borne"])
    report.put("spark_queries_peak_memory_mb", found["peak_mb"])
    write_table("queries_spark", f"One Spark streaming query each, {SPARK_RATE:,} tuples/s", found["levels"])
    if all(level["borne"] for level in found["levels"]):
        report.say("spark: the time was over before it had too many")


def measure_duckdb(report: Report) -> float | None:
    """Milliseconds of an invocation, p50; None where DuckDB is not there."""
    python = install(report, "DuckDB", PEERS / "duckdb", ["duckdb>=1.4", "pyarrow>=22"], "duckdb", "a minute and 80 MB")
    if python is None:
        report.put("duckdb_invoke_p50_ms", None)
        return None
    chosen = selections(QUERIES, SEED, window_tuples=WINDOW_TUPLES)
    with tempfile.TemporaryDirectory(prefix="penstock-peers-") as temporary:
        columns = readings(SEED, 0, LOG_ROWS)
        file = Path(temporary) / "readings.parquet"
        pa.parquet.write_table(pa.table({"us": pa.array(range(LOG_ROWS), pa.int64()), **columns}), file)
        ends = {"low": LOG_ROWS - WINDOW_TUPLES, "high": LOG_ROWS - 1}
        queries = [{"where": c.where(), **ends} for c in chosen]
        path = write_task(Path(temporary), {"file": str(file), "queries": queries, "times": INVOCATIONS})
        command = [str(python), str(HERE / "peers" / "duckdb_selections.py"), str(path)]
        found = run_peer(report, "duckdb, a query per invocation", command)
    if found is None:
        report.put("duckdb_invoke_p50_ms", None)
        return None
    window = {name: columns[name][-WINDOW_TUPLES:] for name in ATTRIBUTES}
    wanted = sum(int(c.selects(window).sum()) for c in chosen)
    if found["results"] != wanted:
        report.say(f"[bold red]duckdb: {found['results']} rows, {wanted} are right")
    p50 = percentile(found["ms"], 0.5)
    report.put("duckdb_invoke_p50_ms", p50)
    report.put("duckdb_invoke_p99_ms", percentile(found["ms"], 0.99))
    return p50


def write_task(folder: Path, task: dict[str, Any]) -> Path:
    path = folder / "task.json"
    path.write_text(json.dumps(task))
    return path
